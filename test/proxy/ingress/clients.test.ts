import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { fetch, ProxyAgent } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { internalHost } from '../../../proxy/base/internal-host-name.ts';
import type { Authority } from '../../../proxy/tls/authority.ts';
import {
  asItCame,
  bodyOf,
  Cleanup,
  httpsUpstream,
  httpUpstream,
  startProxy,
  type TestProxy,
  temporaryFolder,
  testAuthority,
} from '../../support/sidecar/proxy.ts';

let cleanup: Cleanup;
let proxy: TestProxy;
let upstreams: Authority;
let httpPort: number;
let httpsPort: number;
let caFile: string;

async function echo(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const body = (await bodyOf(req)).toString();
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }));
}

beforeEach(async () => {
  cleanup = new Cleanup();
  upstreams = testAuthority(cleanup);
  httpPort = await httpUpstream(cleanup, echo);
  httpsPort = await httpsUpstream(cleanup, upstreams, echo);
  proxy = await startProxy(cleanup, { ca: [upstreams.certPem] });
  caFile = join(temporaryFolder(cleanup), 'ca.pem');
  writeFileSync(caFile, proxy.authority.certPem);
});
afterEach(() => cleanup.run());

function run(command: string, args: string[], env: Record<string, string> = {}): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { env: { PATH: process.env.PATH, ...env } });
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    child.stderr.on('data', (chunk) => {
      text += chunk;
    });
    child.on('close', () => resolve(text));
  });
}

interface Echoed {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

describe('an upstream is reached through the proxy, over HTTP and HTTPS, by', () => {
  const proxyEnv = () => ({
    HTTP_PROXY: proxy.url,
    HTTPS_PROXY: proxy.url,
    http_proxy: proxy.url,
    https_proxy: proxy.url,
    NO_PROXY: '',
    no_proxy: '',
    NODE_USE_ENV_PROXY: '1',
    NODE_EXTRA_CA_CERTS: caFile,
    SSL_CERT_FILE: caFile,
    REQUESTS_CA_BUNDLE: caFile,
    CURL_CA_BUNDLE: caFile,
  });
  const targets = () => [
    `http://127.0.0.1:${httpPort}/p?q=1`,
    `https://127.0.0.1:${httpsPort}/p?q=1`,
  ];

  it('undici ProxyAgent', async () => {
    const dispatcher = new ProxyAgent({
      uri: proxy.url,
      proxyTunnel: false,
      requestTls: { ca: proxy.authority.certPem },
    });
    cleanup.add(() => dispatcher.close());
    for (const url of targets()) {
      const answer = await fetch(url, { dispatcher, method: 'POST', body: '{"a":1}' });
      const echoed = (await answer.json()) as Echoed;
      expect(echoed).toMatchObject({ method: 'POST', url: '/p?q=1', body: '{"a":1}' });
      expect(echoed.headers.host).toBe(new URL(url).host);
    }
    expect(proxy.exchanges.map(({ scheme }) => scheme)).toEqual(['http', 'https']);
  });

  it('undici ProxyAgent that tunnels plain HTTP, too', async () => {
    const dispatcher = new ProxyAgent({ uri: proxy.url, proxyTunnel: true });
    cleanup.add(() => dispatcher.close());
    for (const path of ['/1', '/2']) {
      const answer = await fetch(`http://127.0.0.1:${httpPort}${path}`, { dispatcher });
      expect(((await answer.json()) as Echoed).url).toBe(path);
    }
    expect(proxy.exchanges.map(({ scheme, port }) => [scheme, port])).toEqual([
      ['http', httpPort],
      ['http', httpPort],
    ]);
  });

  it('fetch of Node with NODE_USE_ENV_PROXY', async () => {
    const program = `for (const url of process.argv.slice(1)) {
      const answer = await fetch(url, { method: 'POST', body: 'x' });
      console.log((await answer.json()).body);
    }`;
    const output = await run(
      process.execPath,
      ['--input-type=module', '-e', program, '--', ...targets()],
      proxyEnv(),
    );
    expect(output).toBe('x\nx\n');
    expect(proxy.exchanges).toHaveLength(2);
  });

  it('the http and https modules of Node with NODE_USE_ENV_PROXY', async () => {
    const program = `import http from 'node:http'; import https from 'node:https';
    for (const url of process.argv.slice(1)) {
      await new Promise((resolve) => (url.startsWith('https') ? https : http).get(url, (res) => {
        res.resume().on('end', () => { console.log(res.statusCode); resolve(); });
      }));
    }`;
    const output = await run(
      process.execPath,
      ['--input-type=module', '-e', program, '--', ...targets()],
      proxyEnv(),
    );
    expect(output).toBe('200\n200\n');
    expect(proxy.exchanges).toHaveLength(2);
  });

  it('curl with a body and Expect: 100-continue', async () => {
    const big = 'x'.repeat(200_000);
    const file = join(temporaryFolder(cleanup), 'body');
    writeFileSync(file, big);
    for (const url of targets()) {
      const output = await run(
        'curl',
        ['-sS', '-H', 'Expect: 100-continue', '--data-binary', `@${file}`, url],
        proxyEnv(),
      );
      const echoed = JSON.parse(output) as Echoed;
      expect(echoed.body).toBe(big);
      expect(echoed.headers['content-length']).toBe('200000');
      expect(echoed.headers.expect).toBeUndefined();
      expect(echoed.headers['proxy-connection']).toBeUndefined();
    }
    expect(proxy.exchanges).toHaveLength(2);
  });

  it('the standard library of Python', async () => {
    const program = `import json, sys, urllib.request
for url in sys.argv[1:]:
    request = urllib.request.Request(url, data=b'{"a": 1}', headers={"content-type": "application/json"})
    print(json.load(urllib.request.urlopen(request, timeout=10))["body"])`;
    const output = await run('python3', ['-c', program, ...targets()], proxyEnv());
    expect(output).toBe('{"a": 1}\n'.repeat(2));
    expect(proxy.exchanges).toHaveLength(2);
  });
});

describe('a request to the sidecar’s internal host', () => {
  it.each([
    ['through the proxy', (url: string) => ['-x', url, `http://${internalHost}/manifest`]],
    ['directly', (url: string) => ['-H', `Host: ${internalHost}`, `${url}/manifest`]],
    ['over TLS', (url: string) => ['-x', url, `https://${internalHost}/manifest`]],
  ])('is answered by the sidecar itself and never forwarded: %s', async (_how, args) => {
    const own = await startProxy(cleanup, {
      authority: proxy.authority,
      passthrough: () => 'tunnel',
      handle: async ({ host, target, res }) => {
        res.end(`${host} ${target}`);
      },
    });
    expect(await run('curl', ['-sS', '--cacert', caFile, ...args(own.url)])).toBe(
      'sallyport.internal /manifest',
    );
    expect(own.tunnels).toEqual([]);
  });
});

describe('the proxy token', () => {
  it('is required if the proxy listens beyond loopback', async () => {
    await expect(proxy.ingress.listen(0, '0.0.0.0')).rejects.toThrow(/SALLYPORT_PROXY_TOKEN/);
  });

  it.each([
    ['http, none', 'http', [], 407],
    ['http, wrong', 'http', ['-U', 'x:wrong'], 407],
    ['http, password', 'http', ['-U', 'x:s3cret'], 200],
    ['http, user name', 'http', ['-U', 's3cret:'], 200],
    ['http, bearer', 'http', ['--proxy-header', 'Proxy-Authorization: Bearer s3cret'], 200],
    ['http, bearer longer', 'http', ['--proxy-header', 'Proxy-Authorization: Bearer s3cret2'], 407],
    ['https, none', 'https', [], 407],
    ['https, password', 'https', ['-U', 'x:s3cret'], 200],
  ])('is checked: %s', async (_what, scheme, args, status) => {
    const guarded = await startProxy(cleanup, {
      authority: proxy.authority,
      ca: [upstreams.certPem],
      token: 's3cret',
      handle: async (exchange) => {
        expect(asItCame(exchange).headers.join('\n').toLowerCase()).not.toContain('proxy-auth');
        exchange.res.end('done');
      },
    });
    const port = scheme === 'http' ? httpPort : httpsPort;
    const common = ['-sS', '-o', '/dev/null', '--cacert', caFile, '-x', guarded.url];
    const written = [
      '-w',
      status === 407 && scheme === 'https' ? '%{http_connect}' : '%{http_code}',
    ];
    const output = await run('curl', [
      ...common,
      ...written,
      ...args,
      `${scheme}://127.0.0.1:${port}/`,
    ]);
    expect(output).toContain(String(status));
    expect(guarded.refusals).toEqual(status === 407 ? ['proxy.auth_required'] : []);
  });
});
