import { existsSync, readFileSync } from 'node:fs';

// Clock ticks per second: the value of `getconf CLK_TCK` on Linux.
const ticksPerSecond = 100;

/**
 * Returns the processor time of a process with its threads, in seconds; undefined without /proc.
 */
export function cpuSeconds(pid: number): number | undefined {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return undefined;
  // The name of a process may contain any character (proc(5)), so fields are counted from the
  // parenthesis that closes the name.
  const fields = readFileSync(path, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}
