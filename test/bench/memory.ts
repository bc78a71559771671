import { readFileSync } from 'node:fs';

/**
 * Returns the resident memory of a process in MB (proc(5)): current, peak, and the current part
 * that it does not share with other processes of the same program.
 */
export function residentMb(pid: number): {
  readonly now: number;
  readonly peak: number;
  readonly anonymous: number;
} {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const read = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
  return { now: read('VmRSS'), peak: read('VmHWM'), anonymous: read('RssAnon') };
}
