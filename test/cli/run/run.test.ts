import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerInternal } from '../../../proxy/internal-host/internal-host.ts';
import { createAdmin } from '../../../proxy/telemetry/admin.ts';
import { until } from '../../support/programs/processes.ts';
import {
  Cleanup,
  startProxy,
  type TestProxy,
  temporaryFolder,
  testAuthority,
} from '../../support/sidecar/proxy.ts';

const cli = resolve(import.meta.dirname, '../../../cli/main.ts');
const token = "a token/with+every=odd:'character%41";

const cleanup = new Cleanup();
let proxy: TestProxy;
let settings: Record<string, string>;
let isReady = true;

/** Opens the ports of a real sidecar, without a control plane. */
async function openDoors(): Promise<TestProxy & { readonly adminPort: number }> {
  const authority = testAuthority(cleanup);
  const opened = await startProxy(cleanup, {
    authority,
    token,
    handle: async (exchange) =>
      answerInternal(exchange, {
        approval: () => undefined,
        manifest: () => ({ agent_id: '1', user_id: 'ada', environment: 'prod' }),
        caCertificate: () => authority.certPem,
      }),
  });
  const admin = await createAdmin({
    host: '127.0.0.1',
    port: 0,
    registry: new Registry(),
    caPem: authority.certPem,
    ready: async () => ({ ready: isReady, reasons: isReady ? [] : ['the bus is silent'] }),
  });
  cleanup.add(() => admin.close());
  return { ...opened, adminPort: admin.port };
}

beforeAll(async () => {
  const opened = await openDoors();
  proxy = opened;
  settings = {
    HOME: temporaryFolder(cleanup),
    SALLYPORT_PROXY_PORT: String(proxy.port),
    SALLYPORT_PROXY_ADMIN_PORT: String(opened.adminPort),
    SALLYPORT_PROXY_TOKEN: token,
  };
});
afterAll(() => cleanup.run());

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface Running {
  readonly child: ChildProcess;
  readonly out: () => string;
  readonly ended: Promise<Ended>;
}

function start(file: string, args: readonly string[], env: Record<string, string> = {}): Running {
  const child = spawn(file, args, { env: { PATH: process.env.PATH, ...settings, ...env } });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const ended = once(child, 'close').then(([code]) => ({ code, out, err }));
  return { child, out: () => out, ended };
}

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  start(process.execPath, [cli, 'run', ...args], env);

const sallyport = (args: readonly string[], env: Record<string, string> = {}) => {
  const running = run(args, env);
  running.child.stdin?.end();
  return running.ended;
};

function variables(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .split('\0')
      .filter((line) => line.includes('='))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/**
 * An environment with every variable that would bypass the sidecar, and with variables of
 * Sallyport.
 */
const careless = {
  NO_PROXY: '*',
  no_proxy: 'localhost,.example.org',
  ALL_PROXY: 'socks5h://127.0.0.1:9',
  FTP_PROXY: 'http://127.0.0.1:9',
  PIP_PROXY: 'http://127.0.0.1:9',
  npm_config_noproxy: 'registry.example.org',
  npm_config_https_proxy: 'http://127.0.0.1:9',
  https_proxy: 'http://127.0.0.1:9',
  HTTP_PROXY: 'http://127.0.0.1:9',
  NODE_USE_ENV_PROXY: '1',
  SALLYPORT_DEV_KEYS: 'apk_secret=default:owner:gateway:owner',
  SALLYPORT_MASTER_KEY: 'master-secret',
  SALLYPORT_ENROLMENT_TOKEN: 'set_secret',
  DATABASE_URL: 'postgres://secret@127.0.0.1/ledger',
  REDIS_URL: 'redis://:secret@127.0.0.1',
  KEPT: 'the agent’s own',
};

describe('the environment of a command', () => {
  let ended: Ended;
  beforeAll(async () => {
    ended = await sallyport(['--', 'env', '-0'], careless);
  });

  it('contains every proxy variable in lower and upper case, with the sidecar’s address and token', () => {
    const { out, code, err } = ended;
    expect([code, err]).toEqual([0, '']);
    const env = variables(out);
    const url = `http://sallyport:${encodeURIComponent(token)}@127.0.0.1:${proxy.port}`;
    for (const name of ['http_proxy', 'https_proxy', 'ws_proxy', 'wss_proxy', 'all_proxy']) {
      expect([env[name], env[name.toUpperCase()]]).toEqual([url, url]);
    }
    expect([env.no_proxy, env.NO_PROXY]).toEqual(['', '']);
    expect(env).toMatchObject({ NODE_USE_ENV_PROXY: '1', KEPT: careless.KEPT });
  });

  it('contains no proxy settings of the surrounding shell', () => {
    const env = variables(ended.out);
    expect(Object.entries(env).filter(([, value]) => value.includes('127.0.0.1:9'))).toEqual([]);
    expect(Object.keys(env).filter((name) => /noproxy|^ftp|^pip_proxy/i.test(name))).toEqual([]);
  });

  it('contains no settings or secrets of Sallyport', () => {
    const left = Object.keys(variables(ended.out)).filter((name) => name.startsWith('SALLYPORT_'));
    // Only the sidecar's ports are left.
    expect(left.sort()).toEqual(['SALLYPORT_PROXY_ADMIN_PORT', 'SALLYPORT_PROXY_PORT']);
    expect(ended.out).not.toMatch(/DATABASE_URL|REDIS_URL|secret/);
  });

  it('matches the environment of a shell that evaluates `run --print`', async () => {
    const ours = ['_', 'PWD', 'SHLVL', 'OLDPWD'];
    const plain = (text: string) =>
      Object.entries(variables(text))
        .filter(([name]) => !ours.includes(name))
        .sort();
    const script = `eval "$(${process.execPath} ${cli} run --print)"; exec env -0`;
    const shell = await start('sh', ['-c', script], careless).ended;
    expect(plain(shell.out)).toEqual(plain(ended.out));
  });

  it('names CA files that contain the sidecar’s authority; files that replace the default also contain the public authorities', async () => {
    const company = join(temporaryFolder(cleanup), 'company.pem');
    const companyPem = testAuthority(cleanup).certPem;
    fs.writeFileSync(company, companyPem);
    const env = variables(
      (await sallyport(['--', 'env', '-0'], { NODE_EXTRA_CA_CERTS: company })).out,
    );
    const certificates = (name: string) =>
      fs.readFileSync(env[name] ?? '', 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+/g) ?? [];
    const own = [proxy.authority.certPem, companyPem].map((pem) => pem.split('-----END')[0]);
    for (const name of ['NODE_EXTRA_CA_CERTS', 'DENO_CERT'])
      expect(certificates(name)).toEqual(own);
    for (const name of [
      'SSL_CERT_FILE',
      'REQUESTS_CA_BUNDLE',
      'CURL_CA_BUNDLE',
      'GIT_SSL_CAINFO',
      'PIP_CERT',
      'AWS_CA_BUNDLE',
      'CARGO_HTTP_CAINFO',
      'npm_config_cafile',
    ]) {
      expect(certificates(name)).toEqual(expect.arrayContaining(own));
      expect(certificates(name).length).toBeGreaterThan(50);
    }
  });
});

describe('a command', () => {
  it('reads standard input, and its output and exit code are forwarded', async () => {
    const running = run(['--', 'sh', '-c', 'tr a-z A-Z; echo trouble >&2; exit 7']);
    running.child.stdin?.end('hello');
    expect(await running.ended).toEqual({ code: 7, out: 'HELLO', err: 'trouble\n' });
  });

  it('exits with 128 plus the number of the signal that ends it, with 127 if it does not exist, and with 126 if it is not executable', async () => {
    const codes = await Promise.all([
      sallyport(['--', 'sh', '-c', 'kill -KILL $$']),
      sallyport(['--', 'no-such-program']),
      sallyport(['--', cli.replace('main.ts', 'README.md')]),
    ]);
    expect(codes.map(({ code }) => code)).toEqual([137, 127, 126]);
    expect(codes[1]?.err).toContain('Cannot run no-such-program');
  });

  it('receives its arguments unchanged, including options and another --', async () => {
    const { out } = await sallyport(['printf', '<%s>', '--', '-x', "it's $HOME"]);
    expect(out).toBe("<--><-x><it's $HOME>");
  });

  it('receives signals', async () => {
    const exitOn = async (signal: NodeJS.Signals) => {
      const script = `trap 'exit 9' ${signal.slice(3)}; echo up; while :; do sleep 0.1; done`;
      const running = run(['--', 'sh', '-c', script]);
      await until('the command is up', () => running.out() === 'up\n');
      running.child.kill(signal);
      return (await running.ended).code;
    };
    const signals = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1'] as const;
    expect(await Promise.all(signals.map(exitOn))).toEqual([9, 9, 9, 9]);
  });

  it('receives a single SIGINT when Ctrl-C is pressed in a terminal', async () => {
    const program = `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while True:
    try:
        chunk = os.read(fd, 1000)
    except OSError:
        break
    if not chunk: break
    if b"up" in chunk: os.write(fd, b"\\x03")
    seen += chunk
os.write(1, seen)
`;
    const counting = `let n = 0;
      process.on('SIGINT', () => { n += 1; setTimeout(() => { console.log('times', n); process.exit(); }, 300); });
      console.log('up'); setInterval(() => {}, 1000);`;
    const command = [process.execPath, cli, 'run', '--', process.execPath, '-e', counting];
    const { out } = await start('python3', ['-c', program, ...command]).ended;
    expect(out).toContain('times 1');
    expect(out).not.toContain('times 2');
  });
});

describe('a command is not run, and the reason is printed, if', () => {
  const touching = (file: string) => ['--', 'touch', file];

  async function refused(env: Record<string, string>): Promise<string> {
    const file = join(temporaryFolder(cleanup), 'touched');
    const { code, out, err } = await sallyport(touching(file), env);
    expect([code, out, fs.existsSync(file)]).toEqual([1, '', false]);
    expect(err).toMatch(/^sallyport: [^\n]+\n$/);
    expect(err).not.toContain(token);
    return err;
  }

  it('nothing listens on one of the sidecar’s ports', async () => {
    expect(await refused({ SALLYPORT_PROXY_ADMIN_PORT: '9' })).toMatch(
      /No sidecar answers at 127\.0\.0\.1:9 \(ECONNREFUSED\).*SALLYPORT_PROXY_ADMIN_PORT/,
    );
    expect(await refused({ SALLYPORT_PROXY_PORT: '9' })).toContain('SALLYPORT_PROXY_PORT');
  });

  it('the sidecar is not ready', async () => {
    isReady = false;
    expect(await refused({})).toContain('is not ready: the bus is silent.');
    isReady = true;
  });

  it('the proxy requires another token', async () => {
    const wrong = { SALLYPORT_PROXY_TOKEN: 'another token of some length' };
    expect(await refused(wrong)).toContain('set SALLYPORT_PROXY_TOKEN');
  });

  it('the settings name an identity that differs from that of the sidecar', async () => {
    const wrong = [
      ['SALLYPORT_AGENT_ID', '7', '1'],
      ['SALLYPORT_USER_ID', 'eve', 'ada'],
      ['SALLYPORT_ENVIRONMENT', 'staging', 'prod'],
    ] as const;
    for (const [name, value, actual] of wrong) {
      expect(await refused({ [name]: value })).toContain(
        `${name} is "${value}", and the sidecar at 127.0.0.1:${proxy.port} acts for "${actual}"`,
      );
    }
    const own = {
      SALLYPORT_AGENT_ID: '1',
      SALLYPORT_USER_ID: 'ada',
      SALLYPORT_ENVIRONMENT: 'prod',
    };
    expect((await sallyport(['--', 'true'], own)).code).toBe(0);
  });

  it('the two ports belong to two sidecars', async () => {
    const other = await openDoors();
    const mixed = { SALLYPORT_PROXY_ADMIN_PORT: String(other.adminPort) };
    expect(await refused(mixed)).toContain('two different sidecars');
  });

  it('another program listens on the port', async () => {
    const mixed = { SALLYPORT_PROXY_ADMIN_PORT: String(proxy.port) };
    expect(await refused(mixed)).toContain('is not a sidecar');
  });

  it('the certificates cannot be written', async () => {
    expect(await refused({ XDG_CACHE_HOME: '/dev/null' })).toContain('XDG_CACHE_HOME');
  });
});

it('`run` prints its usage for invalid arguments', async () => {
  const misused = [[], ['--'], ['--prnt'], ['--print', 'x']];
  for (const ended of await Promise.all(misused.map((args) => sallyport(args)))) {
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.err).toMatch(/^sallyport: .+\nUsage: sallyport run -- COMMAND/);
  }
});
