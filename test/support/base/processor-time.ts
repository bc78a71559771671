/**
 * Returns the processor time of this process in milliseconds, which other load on the machine does
 * not increase.
 */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
