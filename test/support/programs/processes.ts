import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const root = resolve(import.meta.dirname, '../../..');

/** One of Sallyport's programs in a separate process. */
export interface Program {
  readonly pid: number;
  /** Everything that the program has printed so far. */
  output(): string;
  /** Sends SIGTERM and waits. Resolves with the exit code. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL, so the program cannot shut down cleanly. */
  kill(): Promise<void>;
  exited(): Promise<number | null>;
}

interface ProgramOptions {
  /** Flags for Node itself. */
  readonly flags?: readonly string[];
  readonly args?: readonly string[];
  /** A file to which the output is written instead of to memory, for programs that print a lot. */
  readonly logFile?: string | undefined;
}

/** Starts `node FILE` with these environment variables, PATH and HOME, and no others. */
export function startProgram(
  file: string,
  env: Readonly<Record<string, string>>,
  { flags = [], args = [], logFile }: ProgramOptions = {},
): Program {
  const log = logFile === undefined ? 'pipe' : fs.openSync(logFile, 'a');
  const child = spawn(process.execPath, [...flags, resolve(root, file), ...args], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
    stdio: ['ignore', log, log],
  });
  if (typeof log === 'number') fs.closeSync(log);
  let text = '';
  const keep = (chunk: Buffer) => {
    text += chunk.toString();
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const exit = exitOf(child);
  return {
    pid: child.pid ?? 0,
    output: () => (logFile === undefined ? text : fs.readFileSync(logFile, 'utf8')),
    stop: async () => {
      child.kill('SIGTERM');
      return exit;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exit;
    },
    exited: () => exit,
  };
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

/** Waits until a condition is true; fails with `what` after `timeoutMs`. */
export async function until(
  what: string,
  ask: () => Promise<boolean> | boolean,
  timeoutMs = 90_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await ask())) {
    if (performance.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await delay(20);
  }
}

/** Returns whether a GET request to `url` returns 200. */
export async function answersOk(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).status === 200;
  } catch {
    return false;
  }
}

/** Returns a TCP port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}
