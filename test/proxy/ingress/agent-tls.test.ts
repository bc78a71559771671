import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, createServer, TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { IngressLimits } from '../../../proxy/ingress/limits.ts';
import type { Log } from '../../../shared/base/log.ts';
import {
  Cleanup,
  httpsUpstream,
  listening,
  startProxy,
  type TestProxy,
  testAuthority,
  until,
} from '../../support/sidecar/proxy.ts';
import { certificateFor, everythingIsHere } from '../upstream/upstream-tls-stage.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

interface Line {
  readonly fields: { readonly code?: string; readonly host?: string };
  readonly message: string;
}

/** Starts a proxy and records its log lines. */
async function logged(limits: Partial<IngressLimits> = {}) {
  const lines: Line[] = [];
  const keep = (fields: object, message: string) => lines.push({ fields, message });
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep };
  const proxy = await startProxy(cleanup, { log, limits, guard: everythingIsHere() });
  return { proxy, lines };
}

/** Resolves with the agent's socket after the proxy has answered CONNECT with 200. */
async function connected(proxy: TestProxy, authority: string): Promise<Socket> {
  const socket = connect(proxy.port, '127.0.0.1');
  cleanup.add(() => socket.destroy());
  socket.on('error', () => {});
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const [answer] = await once(socket, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  return socket;
}

/** The last TLS session ticket that each connection received. */
const sessionOf = new WeakMap<TLSSocket, Buffer>();

/**
 * Performs a TLS handshake inside CONNECT; resolves with the TLS socket, or with the error of the
 * handshake.
 */
async function handshake(
  proxy: TestProxy,
  authority: string,
  options: ConnectionOptions,
): Promise<TLSSocket | NodeJS.ErrnoException> {
  const socket = await connected(proxy, authority);
  const secured = connectTls({ ca: proxy.authority.certPem, ...options, socket });
  secured.on('session', (session) => sessionOf.set(secured, session));
  return new Promise((resolve) => {
    secured.once('secureConnect', () => resolve(secured));
    secured.on('error', resolve);
    secured.once('close', () => resolve(new Error('closed')));
  });
}

async function ask(secured: TLSSocket | Error, host: string): Promise<string> {
  if (!(secured instanceof TLSSocket)) throw secured;
  let text = '';
  secured.on('data', (chunk) => {
    text += chunk;
  });
  secured.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  await once(secured, 'close');
  return text;
}

/** Runs curl. The exit status 60 means that curl could not verify the server's certificate. */
async function curl(args: readonly string[]): Promise<{ readonly status: number | null }> {
  const child = spawn('curl', args, { stdio: 'ignore' });
  const [status] = (await once(child, 'exit')) as [number | null];
  return { status };
}

const old = 'DEFAULT:@SECLEVEL=0';

describe('a failed TLS handshake with an agent', () => {
  it.each<[string, ConnectionOptions, RegExp]>([
    [
      'supports TLS 1.1 at most',
      { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: old },
      /unsupported protocol/,
    ],
    [
      'supports no common cipher',
      { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' },
      /no shared cipher/,
    ],
    ['offers only HTTP/2', { ALPNProtocols: ['h2'] }, /no application protocol/],
  ])('is reported once with its reason if the agent %s', async (_what, options, reason) => {
    const { proxy, lines } = await logged();
    const result = await handshake(proxy, 'a.example:443', { servername: 'a.example', ...options });
    expect(result).toBeInstanceOf(Error);
    await until(() => lines.length > 0);
    expect(lines).toEqual([
      {
        fields: { code: 'proxy.tls_failed', host: 'a.example' },
        message: expect.stringMatching(reason),
      },
    ]);
    expect(proxy.refusals).toEqual(['proxy.tls_failed']);
    expect(proxy.exchanges).toEqual([]);
  });

  it('is reported with the CA file to install if the agent does not trust the sidecar', async () => {
    const { proxy, lines } = await logged();
    const args = ['--silent', '--max-time', '10', '--proxy', proxy.url, 'https://a.example/'];
    const { status } = await curl(args);
    expect(status).toBe(60);
    await until(() => lines.length > 0);
    expect(lines.map(({ message }) => message)).toEqual([
      expect.stringMatching(/does not trust the sidecar’s authority; it needs ca\.crt/),
    ]);
  });

  it.each([
    [
      'sends a malformed ClientHello',
      Buffer.from('16030100050100000000', 'hex'),
      'proxy.tls_failed',
    ],
    ['sends half a ClientHello', Buffer.from('1603010200', 'hex'), 'proxy.tls_failed'],
    ['sends SSH', Buffer.from('\x00SSH-2.0'), 'proxy.protocol_refused'],
  ])('is reported with its code if the agent %s', async (_what, bytes, code) => {
    const { proxy, lines } = await logged({ handshakeMs: 300 });
    const socket = await connected(proxy, 'a.example:443');
    socket.end(bytes);
    await until(() => lines.length > 0);
    await until(() => proxy.ingress.connections() === 0);
    expect(lines.map(({ fields }) => fields.code)).toEqual([code]);
  });
});

describe('TLS with an agent', () => {
  it.each([
    ['no name for an address', '127.0.0.1', undefined, 200],
    ['the same name', 'a.example', 'a.example', 200],
    ['the same name in capitals', 'a.example', 'A.EXAMPLE', 200],
    ['another name', 'a.example', 'b.example', 421],
    ['a name for an address', '127.0.0.1', 'a.example', 421],
    ['no name for a host name', 'a.example', undefined, 421],
  ])(
    'compares the server name with the host of CONNECT: %s',
    async (_what, host, servername, status) => {
      const upstreams = testAuthority(cleanup);
      const port = await httpsUpstream(cleanup, upstreams, (_req, res) => res.end('ok'), host);
      const proxy = await startProxy(cleanup, {
        ca: [upstreams.certPem],
        guard: everythingIsHere(),
      });
      const secured = await handshake(proxy, `${host}:${port}`, {
        ...(servername === undefined ? {} : { servername }),
        // The leaf names the host of the CONNECT, whatever name the ClientHello contains.
        checkServerIdentity: (_name, cert) => {
          expect(cert.subjectaltname).toMatch(new RegExp(`:${host}$`));
          return undefined;
        },
      });
      expect(await ask(secured, `${host}:${port}`)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(proxy.exchanges).toHaveLength(status === 200 ? 1 : 0);
    },
  );

  it.each([
    [undefined, false],
    [['h2', 'http/1.1'], 'http/1.1'],
    [['http/1.1'], 'http/1.1'],
  ])('answers the ALPN offer %j with %j', async (protocols, expected) => {
    const proxy = await startProxy(cleanup);
    const secured = await handshake(proxy, 'a.example:443', {
      servername: 'a.example',
      ...(protocols === undefined ? {} : { ALPNProtocols: protocols }),
    });
    expect((secured as TLSSocket).alpnProtocol).toBe(expected);
  });
});

describe('a TLS session of an agent', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'is resumed for the same host only: %s',
    async (maxVersion) => {
      const proxy = await startProxy(cleanup);
      const hello = (host: string, session?: Buffer) =>
        handshake(proxy, `${host}:443`, {
          servername: host,
          maxVersion,
          ...(session && { session }),
        });
      const first = (await hello('a.example')) as TLSSocket;
      const kept = sessionOf.get(first) ?? ((await once(first, 'session')) as [Buffer])[0];
      expect(((await hello('a.example', kept)) as TLSSocket).isSessionReused()).toBe(true);
      const other = await hello('b.example', kept);
      expect(other instanceof TLSSocket && other.isSessionReused()).toBe(false);
    },
  );
});

describe('a flood of host names', () => {
  it('is refused with 429 at CONNECT and mints no certificate; connections to known hosts still succeed', async () => {
    const { proxy } = await logged();
    const answers: string[] = [];
    const known = await handshake(proxy, 'known.example:443', { servername: 'known.example' });
    expect(known).toBeInstanceOf(TLSSocket);
    for (let index = 0; index < 400; index++) {
      const socket = connect(proxy.port, '127.0.0.1');
      socket.on('error', () => {});
      socket.write(`CONNECT h${index}.example:443 HTTP/1.1\r\nHost: h${index}.example:443\r\n\r\n`);
      const [answer] = await once(socket, 'data');
      answers.push(String(answer).slice(9, 12));
      socket.destroy();
    }
    const admitted = answers.filter((status) => status === '200').length;
    expect(admitted).toBeGreaterThanOrEqual(255);
    expect(answers).toContain('429');
    expect(proxy.authority.minted()).toBe(1);
    expect(
      await handshake(proxy, 'known.example:443', { servername: 'known.example' }),
    ).toBeInstanceOf(TLSSocket);
  });
});

describe('TLS to a passthrough host', () => {
  it('is not decrypted: the agent receives the upstream’s own certificate, and no leaf is minted', async () => {
    const { ca, cert, key } = certificateFor('models.example');
    const server = createServer({ cert, key, ALPNProtocols: ['h2'] }, (socket) => socket.end('hi'));
    const port = await listening(server, cleanup);
    const proxy = await startProxy(cleanup, {
      passthrough: () => 'tunnel',
      guard: everythingIsHere(),
    });
    const secured = await handshake(proxy, `models.example:${port}`, {
      servername: 'models.example',
      ca,
      ALPNProtocols: ['h2'],
    });
    if (!(secured instanceof TLSSocket)) throw secured;
    const [text] = await once(secured, 'data');
    expect([String(text), secured.alpnProtocol]).toEqual(['hi', 'h2']);
    expect(proxy.authority.minted()).toBe(0);
    expect(proxy.exchanges).toEqual([]);
  });
});
