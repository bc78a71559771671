import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { SettingsError } from '../../shared/base/settings.ts';
import { isOurs } from '../agent-environment.ts';

/** How long a server has to go by itself, and then on SIGTERM (MCP, "stdio", shutdown). */
const patienceMs = 2_000;

/** A local MCP server, spoken to over its standard input and output. */
export interface Child {
  readonly output: AsyncIterable<Buffer>;
  /** Resolves when the line is on its way; a server that is gone swallows it. */
  send(line: Uint8Array): Promise<void>;
  /** Resolves, with how, when it has ended. */
  readonly ended: Promise<string>;
  /** Closes its input, then SIGTERM, then SIGKILL, to it and to all that it started. */
  end(): Promise<void>;
}

export async function startChild([command = '', ...args]: readonly string[]): Promise<Child> {
  // A group of its own: servers started by a launcher such as npx end with it.
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: withoutOurSecrets(process.env),
    detached: true,
  });
  const ended = endOf(child);
  try {
    await once(child, 'spawn');
  } catch (cause) {
    throw new SettingsError(`${command} cannot be started: ${(cause as Error).message}.`, {
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
        await within(patienceMs, ended);
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
  const patience = new AbortController();
  const { signal } = patience;
  await Promise.race([event, delay(ms, undefined, { signal }).catch(() => {})]);
  patience.abort();
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // Nobody of it is left.
  }
}

/** The environment of a server: whatever Sallyport is told by its own is not for it to read. */
function withoutOurSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isOurs(name)));
}
