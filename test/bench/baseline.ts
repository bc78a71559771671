import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { type Program, startProgram, until } from '../support/programs/processes.ts';

const isPinnable = spawnSync('taskset', ['--version']).status === 0 && availableParallelism() > 1;

/**
 * Cores to which processes are pinned, if the machine has several. The measured program gets a core
 * of its own.
 */
export const cores = {
  measured: isPinnable ? '0' : undefined,
  others: isPinnable ? `1-${availableParallelism() - 1}` : undefined,
} as const;

/** Pins a running program, with all its threads, to these cores. */
export function pin({ pid }: Pick<Program, 'pid'>, list: string | undefined): void {
  if (list === undefined) return;
  const { status, stderr } = spawnSync('taskset', ['-a', '-c', '-p', list, String(pid)]);
  if (status !== 0) throw new Error(`taskset: ${stderr}`);
}

/** A running program of test/bench/baselines. */
export interface Baseline<Ready> extends Program {
  /** The line of JSON that it prints when it is ready. */
  readonly ready: Ready;
}

/** Starts `node test/bench/baselines/PROGRAM`, and waits for its line of JSON. */
export async function startBaseline<Ready>(
  program: string,
  {
    env = {},
    args = [],
    on,
  }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly args?: readonly string[];
    /** Cores to pin the program to. */
    readonly on?: string | undefined;
  } = {},
): Promise<Baseline<Ready>> {
  const started = startProgram(`test/bench/baselines/${program}`, env, { args });
  pin(started, on);
  let line: string | undefined;
  let ended = false;
  void started.exited().then(() => {
    ended = true;
  });
  await until(
    `${program} is up`,
    () => {
      line = /^\{.*\}$/m.exec(started.output())?.[0];
      if (line === undefined && ended) throw new Error(`${program} ended:\n${started.output()}`);
      return line !== undefined;
    },
    60_000,
  );
  return { ...started, ready: JSON.parse(line ?? '') as Ready };
}
