import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort, until } from '../support/programs/processes.ts';
import { findProgram } from '../support/programs/programs.ts';
import { cores, pin, startBaseline } from './baseline.ts';

/** Another proxy in its released form, which is measured for comparison. */
export interface Peer {
  readonly name: string;
  readonly pid: number;
  readonly port: number;
  /** The protocols that it can proxy. */
  readonly carries: { readonly plain: boolean; readonly intercepted: boolean };
  stop(): Promise<void>;
}

interface PeerSettings {
  /** A folder for the peers' files. */
  readonly folder: string;
  /** The authority of the upstream's certificate, in PEM format. */
  readonly ca: string;
}

const both = { plain: true, intercepted: true };
const mitmproxyVersion = '11.0.2';
const mockttpVersion = '4.6.5';

/**
 * Installs the proxies that are missing and starts all of them, each pinned to the measured core.
 */
export async function startPeers({ folder, ca }: PeerSettings): Promise<Peer[]> {
  fs.writeFileSync(join(folder, 'upstream-ca.pem'), ca);
  const forPlain = { plain: true, intercepted: false };
  const mockttp = { BENCH_CA: ca, BENCH_MOCKTTP: mockttpModule() };
  return [
    await fromBaseline('http-proxy', forPlain),
    await fromBaseline(`mockttp ${mockttpVersion}`, both, mockttp),
    await startMitmproxy(folder),
    await startSquid(folder),
  ];
}

async function fromBaseline(
  name: string,
  carries: Peer['carries'],
  env: Readonly<Record<string, string>> = {},
): Promise<Peer> {
  const [program] = name.split(' ');
  const { pid, ready, kill } = await startBaseline<{ port: number }>(`${program}.ts`, {
    env,
    on: cores.measured,
  });
  return { name, pid, port: ready.port, carries, stop: kill };
}

// The other proxies are not dependencies of this repository: they are downloaded before they are
// measured.
const cache = resolve(import.meta.dirname, '../../node_modules/.cache');

function mockttpModule(): string {
  const folder = join(cache, `mockttp-${mockttpVersion}`);
  const module = join(folder, 'node_modules/mockttp/dist/main.js');
  if (!fs.existsSync(module)) {
    const wanted = `mockttp@${mockttpVersion}`;
    const flags = ['--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'];
    execFileSync('npm', ['install', wanted, ...flags], { stdio: ['ignore', 'ignore', 'inherit'] });
  }
  return module;
}

async function startMitmproxy(folder: string): Promise<Peer> {
  const port = await freePort();
  const python = await mitmproxyPython();
  const child = await startCommand(join(python, 'mitmdump'), port, [
    '-q',
    '--listen-host',
    '127.0.0.1',
    '--listen-port',
    String(port),
    '--set',
    `confdir=${join(folder, 'mitmproxy')}`,
    '--set',
    `ssl_verify_upstream_trusted_ca=${join(folder, 'upstream-ca.pem')}`,
  ]);
  return { name: `mitmproxy ${mitmproxyVersion}`, port, carries: both, ...child };
}

async function mitmproxyPython(): Promise<string> {
  const venv = join(cache, `mitmproxy-${mitmproxyVersion}`);
  if (!fs.existsSync(join(venv, 'bin/mitmdump'))) {
    execFileSync(await findProgram(['python3']), ['-m', 'venv', venv]);
    const wanted = `mitmproxy==${mitmproxyVersion}`;
    execFileSync(join(venv, 'bin/pip'), ['install', '--quiet', wanted], { stdio: 'inherit' });
  }
  return join(venv, 'bin');
}

async function startSquid(folder: string): Promise<Peer> {
  const port = await freePort();
  const squid = await findProgram(['squid'], 'squid-openssl');
  const home = join(folder, 'squid');
  fs.mkdirSync(home);
  const ca = join(home, 'ca.pem');
  execFileSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=bench',
    '-keyout',
    ca,
    '-out',
    join(home, 'cert.pem'),
  ]);
  fs.appendFileSync(ca, fs.readFileSync(join(home, 'cert.pem')));
  const mint = '/usr/lib/squid/security_file_certgen';
  const minted = join(home, 'minted');
  execFileSync(mint, ['-c', '-s', minted, '-M', '4MB']);
  const config = join(home, 'squid.conf');
  fs.writeFileSync(
    config,
    [
      `http_port 127.0.0.1:${port} ssl-bump generate-host-certificates=on tls-cert=${ca}`,
      `sslcrtd_program ${mint} -s ${minted} -M 4MB`,
      'ssl_bump bump all',
      // Verification is disabled, because Squid does not verify certificates against IP addresses.
      'tls_outgoing_options flags=DONT_VERIFY_PEER,DONT_VERIFY_DOMAIN',
      'http_access allow all',
      'cache deny all',
      'access_log none',
      'pinger_enable off',
      `cache_log ${join(home, 'cache.log')}`,
      `pid_filename ${join(home, 'squid.pid')}`,
      `coredump_dir ${home}`,
      'shutdown_lifetime 1 seconds',
      `cache_effective_user ${userInfo().uid === 0 ? 'proxy' : userInfo().username}`,
      '',
    ].join('\n'),
  );
  // When Squid is started as root, it switches to the user `proxy`, which must be able to read
  // these files.
  if (userInfo().uid === 0) execFileSync('chown', ['-R', 'proxy', home]);
  fs.chmodSync(folder, 0o755);
  const child = await startCommand(squid, port, ['-N', '-f', config]);
  return { name: 'squid ssl-bump', port, carries: both, ...child };
}

async function startCommand(
  command: string,
  port: number,
  args: readonly string[],
): Promise<Pick<Peer, 'pid' | 'stop'>> {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const { pid = 0 } = child;
  await until(
    `${command} listens`,
    () => {
      if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}`);
      return listens(port);
    },
    60_000,
  );
  pin({ pid }, cores.measured);
  return { pid, stop: () => end(child) };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
