import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from './programs.ts';

interface RedisOptions {
  /**
   * Keeps data across `restart` and `kill` (append-only file, synced on every write). Default: no
   * data is kept.
   */
  readonly persistent?: boolean;
  /** Default: `noeviction`, which Sallyport requires. */
  readonly maxmemoryPolicy?: string;
  /** Additional settings, as on the command line: `['--maxclients', '20']`. */
  readonly settings?: readonly string[];
}

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  /** Process id of the running server; `restart` changes it. */
  readonly pid: number;
  /** Stops the server and deletes its data. */
  stop(): Promise<void>;
  /** Kills the server as a crash would; `restart` starts it again on the same port. */
  kill(): Promise<void>;
  restart(): Promise<void>;
}

/** Starts a separate, real Redis (or Valkey) for one test, on loopback and on a free port. */
export async function startRedis(options: RedisOptions = {}): Promise<TestRedis> {
  const binary = await findServer();
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-redis-'));
  const port = await freePort();
  const args = serverArgs(options, folder, port);
  let server = await launch(binary, args);

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return server.pid ?? -1;
    },
    async stop() {
      await end(server, 'SIGTERM');
      await rm(folder, { recursive: true, force: true });
    },
    kill: () => end(server, 'SIGKILL'),
    async restart() {
      await end(server, 'SIGTERM');
      server = await launch(binary, args);
    },
  };
}

function serverArgs(options: RedisOptions, folder: string, port: number): readonly string[] {
  const kept =
    options.persistent === true ? ['--appendonly', 'yes', '--appendfsync', 'always'] : [];
  return [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    '--save',
    '',
    '--daemonize',
    'no',
    '--databases',
    '1',
    '--maxmemory-policy',
    options.maxmemoryPolicy ?? 'noeviction',
    ...kept,
    ...(options.settings ?? []),
  ];
}

async function launch(binary: string, args: readonly string[]): Promise<ChildProcess> {
  const server = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const orphaned = () => server.kill('SIGKILL');
  process.once('exit', orphaned);
  server.once('exit', () => process.off('exit', orphaned));

  let output = '';
  await new Promise<void>((resolve, reject) => {
    const listen = (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('eady to accept connections')) resolve();
    };
    server.stdout?.on('data', listen);
    server.stderr?.on('data', listen);
    server.once('error', reject);
    server.once('exit', () => reject(new Error(`${binary} did not start:\n${output}`)));
  });
  return server;
}

async function end(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const gone = once(server, 'exit');
  server.kill(signal);
  await gone;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no TCP port to be had');
  return address.port;
}

/**
 * Returns the path of a server, and installs the server first if possible. Call it once before
 * tests run concurrently.
 */
export function findServer(): Promise<string> {
  return findProgram(['redis-server', 'valkey-server']);
}
