import { existsSync, readFileSync } from 'node:fs';

// Of Linux on every machine that matters: `getconf CLK_TCK`.
const ticksPerSecond = 100;

/** Seconds of processor time that a process has taken, its threads' too; undefined where /proc is not. */
export function cpuSeconds(pid: number): number | undefined {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return undefined;
  // proc(5): the name may hold anything, so that fields are counted from its closing bracket.
  const fields = readFileSync(path, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}
