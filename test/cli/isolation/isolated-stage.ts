import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createApi } from '../../../cli/demo/api.ts';
import { until } from '../../support/programs/processes.ts';
import { installPackages } from '../../support/programs/programs.ts';

const root = resolve(import.meta.dirname, '../../..');
const cli = join(root, 'cli/main.ts');
/** Id of the unprivileged user that runs the instance. */
const uid = 10_001;

export interface Ended {
  readonly code: number | null;
  readonly out: string;
}

export interface IsolatedStage {
  readonly folder: string;
  readonly dataDir: string;
  /** `host:port` of the bound upstream; only the sidecar can resolve the name. */
  readonly upstream: string;
  readonly calls: () => readonly string[];
  readonly api: ReturnType<typeof createApi>['api'];
  /** A TCP port, a UDP port and two Unix sockets of the host, which record every contact. */
  readonly host: {
    readonly tcp: number;
    readonly udp: number;
    readonly unixPath: string;
    readonly abstractName: string;
    readonly contacts: () => readonly string[];
  };
  readonly sidecarPid: number;
  readonly apiPort: number;
  run(command: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  start(command: readonly string[], env?: Readonly<Record<string, string>>): ChildProcess;
  stopSidecar(): Promise<void>;
  close(): Promise<void>;
}

/** Starts an embedded instance as an unprivileged user, with one bound upstream. */
export async function startIsolatedStage(): Promise<IsolatedStage> {
  await assertPrograms();
  const folder = fs.mkdtempSync(join(tmpdir(), 'isolated-'));
  for (const name of ['home', 'work']) fs.mkdirSync(join(folder, name));
  const dataDir = join(folder, 'data');
  const preload = join(folder, 'names.mjs');
  fs.writeFileSync(preload, loopbackNames);
  const host = await openHost(folder);
  const upstream = await openUpstream();
  own(folder);
  const settings = {
    HOME: join(folder, 'home'),
    PATH: `${dirname(process.execPath)}:/usr/bin:/bin:/usr/sbin`,
    SALLYPORT_DATA_DIR: dataDir,
  };
  const ports = {
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
  };
  const up = asUser([process.execPath, '--import', preload, cli, 'up', '--quiet'], {
    ...settings,
    ...ports,
  });
  const output = collect(up);
  await until(`the embedded instance is ready: ${output()}`, () => {
    if (up.exitCode !== null) throw new Error(`the embedded instance ended: ${output()}`);
    return output().includes('Sallyport is ready.');
  });
  const running = JSON.parse(fs.readFileSync(join(dataDir, 'running.json'), 'utf8'));
  const { api } = createApi({ origin: running.origin, ownerKey: running.ownerKey });
  const start = (command: readonly string[], env = {}) =>
    asUser(
      [process.execPath, cli, 'run', '--isolated', '--', ...command],
      { ...settings, ...env },
      join(folder, 'work'),
    );
  const stopSidecar = async () => {
    if (up.exitCode !== null || up.signalCode !== null) return;
    const exited = once(up, 'exit');
    up.kill('SIGTERM');
    await exited;
  };
  return {
    folder,
    dataDir,
    upstream: `upstream.example:${upstream.port}`,
    calls: upstream.calls,
    api,
    host,
    sidecarPid: running.pid,
    apiPort: Number(new URL(running.origin).port),
    start,
    async run(command, env) {
      const child = start(command, env);
      const out = collect(child);
      const [code] = (await once(child, 'close')) as [number | null];
      return { code, out: out() };
    },
    stopSidecar,
    async close() {
      await stopSidecar();
      upstream.close();
      host.close();
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Code that makes the sidecar, and no other program, resolve `*.example` to loopback. */
const loopbackNames = `import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
const real = dns.lookup;
dns.lookup = (name, ...rest) => real(name.endsWith('.example') ? '127.0.0.1' : name, ...rest);
syncBuiltinESMExports();
`;

async function assertPrograms(): Promise<void> {
  if (process.platform !== 'linux') throw new Error('These tests need Linux.');
  const needed = ['/usr/bin/unshare', '/usr/bin/setpriv', '/usr/bin/python3', '/usr/bin/curl'];
  const isMissing = () =>
    needed.some((path) => !fs.existsSync(path)) ||
    ['ip', 'nft'].some((name) =>
      ['/usr/sbin', '/sbin', '/usr/bin'].every((at) => !fs.existsSync(join(at, name))),
    );
  if (isMissing()) await installPackages(['util-linux', 'iproute2', 'nftables', 'python3', 'curl']);
  if (isMissing()) {
    throw new Error(
      'These tests need util-linux, iproute2, nftables, /usr/bin/python3 and /usr/bin/curl.',
    );
  }
}

function own(path: string): void {
  if (process.getuid?.() !== 0) return;
  fs.chownSync(path, uid, uid);
  for (const entry of fs.readdirSync(path)) fs.chownSync(join(path, entry), uid, uid);
}

/**
 * Descriptor 3 of every program that the stage starts. A shell, too, leaves descriptors open for
 * its children.
 */
const inherited = fs.openSync('/etc/passwd', 'r');

function asUser(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd = '/tmp',
): ChildProcess {
  const user = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--'];
  const [file = '', ...args] =
    process.getuid?.() === 0 ? ['/usr/bin/setpriv', ...user, ...command] : command;
  return spawn(file, args, { env, cwd, stdio: ['pipe', 'pipe', 'pipe', inherited] });
}

function collect(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  }
  return () => text;
}

async function openUpstream() {
  const calls: string[] = [];
  const server = createHttpServer((req, res) => {
    calls.push(`${req.method} ${req.url}`);
    res.end(`upstream answers ${req.url}\n`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { port, calls: () => calls, close: () => server.close() };
}

async function openHost(folder: string) {
  const contacts: string[] = [];
  const servers: Server[] = [];
  const listen = async (at: { port?: number; host?: string; path?: string }, what: string) => {
    const server = createServer((socket) => {
      contacts.push(what);
      socket.on('error', () => {});
      socket.end('host answers\n');
    });
    server.listen(at);
    await once(server, 'listening');
    servers.push(server);
    return server.address();
  };
  const unixPath = join(folder, 'service.sock');
  const abstractName = `sallyport-test-${process.pid}`;
  const { port: tcp } = (await listen({ port: 0, host: '0.0.0.0' }, 'tcp')) as AddressInfo;
  await listen({ path: unixPath }, 'unix path');
  await listen({ path: `\0${abstractName}` }, 'unix abstract');
  fs.chmodSync(unixPath, 0o666);
  const datagrams = createSocket('udp4', () => contacts.push('udp'));
  datagrams.bind(0, '0.0.0.0');
  await once(datagrams, 'listening');
  const close = () => {
    for (const server of servers) server.close();
    datagrams.close();
  };
  return {
    tcp,
    udp: datagrams.address().port,
    unixPath,
    abstractName,
    contacts: () => contacts,
    close,
  };
}
