/** Milliseconds that this process has computed: a busy machine does not make them more. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
