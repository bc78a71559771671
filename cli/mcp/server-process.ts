import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { SettingsError } from '../../shared/base/settings.ts';
import { isSallyportSetting } from '../run/agent-environment.ts';

/** Time for the server to exit after its input ends, and after SIGTERM (MCP, "stdio", shutdown). */
const gracePeriodMs = 2_000;

/** A local MCP server, connected by its standard input and output. */
export interface ServerProcess {
  readonly output: AsyncIterable<Buffer>;
  /** Resolves when the line is written, or discarded because the server has ended. */
  send(line: Uint8Array): Promise<void>;
  /** Resolves with the exit code or signal when the server has ended. */
  readonly ended: Promise<string>;
  /**
   * Closes the server's input, then sends SIGTERM and SIGKILL to the server and to the processes
   * that it started.
   */
  end(): Promise<void>;
}

export async function startServer([
  command = '',
  ...args
]: readonly string[]): Promise<ServerProcess> {
  // The server gets its own process group. A launcher such as npx and the server that it starts are
  // then ended together.
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: withoutSallyportSettings(process.env),
    detached: true,
  });
  const ended = endOf(child);
  try {
    await once(child, 'spawn');
  } catch (cause) {
    throw new SettingsError(`Cannot start ${command}: ${(cause as Error).message}.`, {
      cause,
    });
  }
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  return {
    output: child.stdout,
    ended,
    async send(line) {
      if (child.stdin.writableEnded || child.stdin.destroyed) return;
      if (child.stdin.write(Buffer.concat([line, Buffer.from('\n')]))) return;
      await Promise.race([once(child.stdin, 'drain').catch(() => {}), ended]);
    },
    async end() {
      child.stdin.end();
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        await within(gracePeriodMs, ended);
        signalGroup(child, signal);
      }
      await ended;
    },
  };
}

async function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  child.once('error', (error) => resolve(error.message));
  child.once('exit', (code, signal) => {
    resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
  });
  return promise;
}

async function within(ms: number, event: Promise<unknown>): Promise<void> {
  const timer = new AbortController();
  const { signal } = timer;
  await Promise.race([event, delay(ms, undefined, { signal }).catch(() => {})]);
  timer.abort();
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The process group has already ended.
  }
}

/** The environment of the server, without the settings and secrets of Sallyport. */
function withoutSallyportSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isSallyportSetting(name)));
}
