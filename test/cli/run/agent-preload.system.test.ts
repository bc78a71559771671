import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internalHost } from '../../../proxy/base/internal-host-name.ts';
import { answerInternal } from '../../../proxy/internal-host/internal-host.ts';
import { createAdmin } from '../../../proxy/telemetry/admin.ts';
import { createForward } from '../../../proxy/upstream/forward.ts';
import { createGuard } from '../../../shared/upstream/address-guard.ts';
import {
  type InstalledNode,
  installNode,
  type NodeVersion,
  nodeVersions,
} from '../../support/programs/node-versions.ts';
import {
  asItCame,
  Cleanup,
  httpsUpstream,
  httpUpstream,
  startProxy,
  temporaryFolder,
  testAuthority,
} from '../../support/sidecar/proxy.ts';

const cli = resolve(import.meta.dirname, '../../../cli/main.ts');
const preload = resolve(import.meta.dirname, '../../../cli/run/agent-preload.cjs');
// A token without characters that need escaping, because axios on Node 18 and 20 does not decode
// the password in the proxy's URL.
const token = 'a-token-that-needs-no-escapes';
const cleanup = new Cleanup();

/**
 * Starts the ingress of a sidecar, and upstreams over HTTP and TLS. `seen` lists what the sidecar
 * forwarded.
 */
async function startStage() {
  const authority = testAuthority(cleanup);
  const performed: string[] = [];
  const seen: string[] = [];
  const upstreamAuthority = testAuthority(cleanup);
  const guard = createGuard({ allowPrivate: ['127.0.0.0/8', '::1/128'] });
  const forward = createForward({ guard, ca: [upstreamAuthority.certPem] });
  cleanup.add(() => forward.close());
  const proxy = await startProxy(cleanup, {
    authority,
    token,
    guard,
    handle: async (exchange) => {
      if (exchange.host === internalHost) {
        const caCertificate = () => authority.certPem;
        return answerInternal(exchange, {
          approval: () => undefined,
          manifest: () => ({}),
          caCertificate,
        });
      }
      seen.push(exchange.target);
      await forward(asItCame(exchange), exchange.res, { signal: exchange.abort.signal });
    },
  });
  const admin = await createAdmin({
    host: '127.0.0.1',
    port: 0,
    registry: new Registry(),
    caPem: authority.certPem,
    ready: async () => ({ ready: true, reasons: [] }),
  });
  cleanup.add(() => admin.close());
  const upstream: RequestListener = (req, res) => {
    performed.push(req.url ?? '');
    req.resume();
    res.end('{}');
  };
  const origins = [
    `http://127.0.0.1:${await httpUpstream(cleanup, upstream)}`,
    `https://localhost:${await httpsUpstream(cleanup, upstreamAuthority, upstream, 'localhost')}`,
  ];
  const settings = {
    PATH: process.env.PATH,
    HOME: temporaryFolder(cleanup),
    SALLYPORT_PROXY_PORT: String(proxy.port),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin.port),
    SALLYPORT_PROXY_TOKEN: token,
  };
  return { performed, seen, origins, settings, refusals: proxy.refusals };
}

let stage: Awaited<ReturnType<typeof startStage>>;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => cleanup.run());

async function run(command: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [cli, 'run', '--', ...command], {
    env: { ...stage.settings, ...env },
  });
  const closed = once(child, 'close');
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await closed;
  return { code, out, err };
}

describe.each(nodeVersions)('$name under `sallyport run`', (version) => {
  let installed: InstalledNode;
  beforeAll(async () => {
    installed = await installNode(version);
  }, 600_000);

  it('makes every call through the sidecar, also from workers and child processes', async () => {
    const program = join(import.meta.dirname, 'calls.mjs');
    const { out, err, code } = await run([
      installed.node,
      program,
      installed.packages,
      ...stage.origins,
    ]);
    expect([code, /sallyport|around/.test(err)], err).toEqual([0, false]);
    const results = JSON.parse(out) as Record<string, unknown>;
    const markers = Object.keys(results);
    expect(markers.length).toBeGreaterThan(80);
    expect(Object.entries(results).filter(([, status]) => status !== 200)).toEqual([]);
    const passed = markers.filter((marker) => stage.seen.includes(`/${marker}`));
    expect(passed).toEqual(markers);
    expect(stage.performed.filter((path) => !stage.seen.includes(path))).toEqual([]);
  });
});

describe('a Node process that cannot use the sidecar', () => {
  const program =
    "fetch('http://127.0.0.1:9/').then(() => console.log('called'), () => console.log('called'))";
  const start = async (node: string, env: Record<string, string>) => {
    const child = spawn(node, ['-e', program], {
      env: { NODE_OPTIONS: `--require "${preload}"`, ...env },
    });
    const closed = once(child, 'close');
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = await closed;
    return { code, out, err };
  };

  it.each([
    ['no proxy is set', {}],
    ['one of the two proxies is missing', { http_proxy: 'http://127.0.0.1:9' }],
    [
      'a proxy is not an HTTP proxy',
      { HTTP_PROXY: 'socks5://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9' },
    ],
  ])('ends with a message if %s', async (_, env) => {
    const { code, out, err } = await start(process.execPath, env);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(
      /^sallyport: calls of this process cannot go through the sidecar: HTTPS?_PROXY/,
    );
    expect(err.trim().split('\n')).toHaveLength(1);
  });

  it('reports a sidecar that is unavailable, and does not call the host directly', async () => {
    const gone = { http_proxy: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' };
    const { node } = await installNode(first);
    const before = stage.performed.length;
    const child = spawn(
      node,
      ['-e', `fetch('${stage.origins[0]}/gone').catch((e) => console.log(e.cause.code))`],
      { env: { NODE_OPTIONS: `--require "${preload}"`, ...gone } },
    );
    expect(await text(child.stdout)).toBe('ECONNREFUSED\n');
    expect(stage.performed.length).toBe(before);
  });
});

const first = nodeVersions[0] as NodeVersion;

describe('NO_PROXY', () => {
  it.each([
    ['localhost', true],
    ['127.0.0.1', true],
    ['*', true],
    ['.0.0.1, example', true],
    ['127.0.0.1:1', false],
    ['0.0.1', false],
    ['example', false],
    ['', false],
  ])(
    'set to %j by the command itself exempts 127.0.0.1 from the proxy: %s',
    async (exceptions, direct) => {
      const { node } = await installNode(first);
      const url = `${stage.origins[0]}/no-proxy`;
      const script = `const http = require('http');
      fetch('${url}').then(() => http.get('${url}', (res) => res.resume()))`;
      const before = [stage.seen.length, stage.performed.length];
      const shell = `NO_PROXY='${exceptions}' no_proxy='${exceptions}' exec "$0" -e "$1"`;
      const { code } = await run([
        'sh',
        '-c',
        shell.replace('"$0"', `"${node}"`).replace('"$1"', '"$0"'),
        script,
      ]);
      const passed = direct && exceptions !== 'localhost' ? 0 : 2;
      expect(code).toBe(0);
      expect([
        stage.seen.length - (before[0] ?? 0),
        stage.performed.length - (before[1] ?? 0),
      ]).toEqual([passed, 2]);
    },
  );
});

it('the package `ws`, which opens its own connections, connects through the sidecar', async () => {
  const { node, packages } = await installNode(first);
  const [http, https] = stage.origins.map((origin) => origin.replace('http', 'ws'));
  const script = `const WebSocket = require('${packages}/node_modules/ws');
    for (const url of ['${http}/ws-plain', '${https}/ws-secure'])
      new WebSocket(url).on('error', (error) => console.log(error.message));`;
  const refusals = stage.refusals.length;
  const { out } = await run([node, '-e', script]);
  // The stage's sidecar has no binding that permits upgrades. A request that bypasses the sidecar
  // would get 200 from the upstream.
  expect(out).not.toContain('200');
  expect(stage.refusals.length - refusals).toBe(2);
});

it('`run` keeps existing Node options, and adds the preload only once if `run` is nested', async () => {
  const nested = `SALLYPORT_PROXY_TOKEN=${token} "${process.execPath}" "${cli}" run -- printenv NODE_OPTIONS`;
  const { out } = await run(['sh', '-c', nested], { NODE_OPTIONS: '--no-deprecation' });
  expect(out).toBe(`--no-deprecation --require "${preload}"\n`);
});
