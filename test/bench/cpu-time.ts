import { existsSync, readFileSync } from 'node:fs';

// The value of `getconf CLK_TCK` on Linux.
const ticksPerSecond = 100;

/** Processor time of a process with its threads in seconds; undefined without /proc. */
export function cpuSeconds(pid: number): number | undefined {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return undefined;
  // proc(5): the name may contain any character, so fields are counted from its closing
  // parenthesis.
  const fields = readFileSync(path, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}
