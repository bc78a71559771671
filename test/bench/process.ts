import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

/** A program of the benchmarks in a process of its own. */
export interface BenchProcess<Ready> {
  /** What it printed first: one line of JSON. */
  readonly ready: Ready;
  readonly pid: number;
  stop(): Promise<void>;
}

interface Start {
  /** File under test/bench/baselines. */
  readonly program: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Cores to stay on, where `taskset` exists. */
  readonly cores?: string;
}

/** Starts a program, on cores of its own where the machine can, and waits for its first line. */
export async function startProcess<Ready>({
  program,
  args = [],
  env = {},
  cores,
}: Start): Promise<BenchProcess<Ready>> {
  const file = join(import.meta.dirname, 'baselines', program);
  const command =
    cores === undefined ? [process.execPath] : ['taskset', '-c', cores, process.execPath];
  const [name = '', ...rest] = [...command, file, ...args];
  const child = spawn(name, rest, {
    env: { PATH: process.env.PATH, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ready = JSON.parse(await firstLine(child)) as Ready;
  return { ready, pid: child.pid ?? 0, stop: () => stop(child) };
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
    child.once('error', reject);
    child.once('close', (code) => reject(new Error(`${child.spawnargs.join(' ')} ended: ${code}`)));
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGKILL');
  await closed;
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** Largest less smallest, over the median. */
export function spreadOf(values: readonly number[]): number {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}
