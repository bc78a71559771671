import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../proxy/ingress/peer.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { clientHello } from '../../support/sidecar/client-hello.ts';
import {
  Cleanup,
  httpsUpstream,
  httpUpstream,
  listening,
  startProxy,
  type TestProxy,
  testAuthority,
  until,
} from '../../support/sidecar/proxy.ts';
import { everythingIsHere } from '../upstream/upstream-tls-stage.ts';
import { close, codes, exchange } from './hostile-stage.ts';

const host = 'api.example';
const address = '203.0.113.7';
let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

/**
 * Starts a proxy. `open` connects to it as if the connection had been redirected from
 * `destination`.
 */
async function redirecting(
  destination: Destination,
  options: Parameters<typeof startProxy>[1] = {},
): Promise<{ readonly proxy: TestProxy; readonly open: () => Socket }> {
  const proxy = await startProxy(cleanup, { guard: everythingIsHere(), ...options });
  const server = createServer({ allowHalfOpen: true }, (socket) =>
    proxy.ingress.acceptRedirected(socket, destination),
  );
  const port = await listening(server, cleanup);
  const open = () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    cleanup.add(() => socket.destroy());
    return socket;
  };
  return { proxy, open };
}

const to = (port: number, names: readonly string[] = []): Destination => ({ address, port, names });
const get = (name: string) => `GET /a HTTP/1.1\r\nHost: ${name}\r\n${close}\r\n`;

async function secured(socket: Socket, servername: string, ca: string) {
  const secure = connectTls({ socket, servername, ca, checkServerIdentity: () => undefined });
  await once(secure, 'secureConnect');
  return secure;
}

/** Returns the TLS alert with which a raw socket is closed, or undefined if it is reset. */
async function alertOf(socket: Socket): Promise<number | undefined> {
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
  });
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
  return received[0] === 0x15 ? received[6] : undefined;
}

describe('a redirected connection with plain HTTP', () => {
  it('is a call to the host in its Host header, whatever address it was made to', async () => {
    const port = await httpUpstream(cleanup, (req, res) =>
      res.end(`<${req.headers.host}${req.url}>`),
    );
    const { proxy, open } = await redirecting(to(port));
    expect(await exchange(open(), get(`${host}:${port}`))).toContain(`<${host}:${port}/a>`);
    expect(proxy.exchanges).toMatchObject([{ scheme: 'http', host, port, target: '/a' }]);
  });

  it('may name another host in each request', async () => {
    const port = await httpUpstream(cleanup, (req, res) => res.end(`<${req.headers.host}>`));
    const { proxy, open } = await redirecting(to(port, [host]));
    const first = `GET / HTTP/1.1\r\nHost: a.example:${port}\r\n\r\n`;
    await exchange(open(), `${first}${get(`b.example:${port}`)}`);
    expect(proxy.exchanges.map((one) => one.host)).toEqual(['a.example', 'b.example']);
  });

  it.each([
    ['another port', 'GET / HTTP/1.1\r\nHost: api.example:8443', 'proxy.host_mismatch'],
    ['no Host', 'GET / HTTP/1.1\r\nX: y', 'proxy.request_invalid'],
    ['no Host in HTTP/1.0', 'GET / HTTP/1.0\r\nX: y', 'proxy.request_invalid'],
    ['two Hosts', 'GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example', 'proxy.request_invalid'],
    [
      'an absolute form',
      'GET http://a.example/ HTTP/1.1\r\nHost: a.example',
      'proxy.request_invalid',
    ],
    ['CONNECT', 'CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80', 'proxy.request_invalid'],
  ])('is refused if it has %s', async (_what, head, code) => {
    const { proxy, open } = await redirecting(to(80));
    expect(codes(await exchange(open(), `${head}\r\n${close}\r\n`))).toEqual([code]);
    expect(proxy.exchanges).toEqual([]);
  });

  it('needs no proxy token', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end('reached'));
    const { open } = await redirecting(to(port), { token: 'a-token-of-the-proxy' });
    expect(await exchange(open(), get(`${host}:${port}`))).toContain('reached');
  });
});

describe('a redirected connection with TLS', () => {
  it('is intercepted with a certificate for its SNI', async () => {
    const upstreams = testAuthority(cleanup);
    const port = await httpsUpstream(cleanup, upstreams, (_req, res) => res.end('secure'), host);
    const { proxy, open } = await redirecting(to(port), { ca: [upstreams.certPem] });
    const secure = connectTls({ socket: open(), servername: host, ca: proxy.authority.certPem });
    expect(await exchange(secure, get(`${host}:${port}`))).toContain('secure');
    expect(proxy.exchanges).toMatchObject([{ scheme: 'https', host, port }]);
  });

  it('is refused if a request inside has another Host', async () => {
    const { proxy, open } = await redirecting(to(443));
    const secure = await secured(open(), host, proxy.authority.certPem);
    expect(codes(await exchange(secure, get('b.example')))).toEqual(['proxy.host_mismatch']);
  });

  it('may lack an SNI only if the address that the agent used belongs to no name', async () => {
    const literal = await redirecting(to(443));
    const secure = await secured(literal.open(), '', literal.proxy.authority.certPem);
    expect(codes(await exchange(secure, get('b.example')))).toEqual(['proxy.host_mismatch']);
    const named = await redirecting(to(443, [host]));
    const socket = named.open();
    socket.write(clientHello());
    expect(await alertOf(socket)).toBe(112);
    expect(named.proxy.refusals).toEqual(['proxy.sni_missing']);
  });

  it('is tunnelled to the host in its SNI if this is a passthrough host', async () => {
    const upstreams = testAuthority(cleanup);
    const leaf = upstreams.leafFor(host);
    const server = createTlsServer(
      { SNICallback: (_name, done) => done(null, leaf.context) },
      (one) => one.end('from the upstream'),
    );
    const port = await listening(server, cleanup);
    const { proxy, open } = await redirecting(to(port, [host]), { passthrough: () => 'tunnel' });
    const secure = connectTls({ socket: open(), servername: host, ca: upstreams.certPem });
    expect(await exchange(secure, '')).toBe('from the upstream');
    expect(await proxy.tunnels[0]?.ended).toMatchObject({ sni: host, failure: undefined });
  });

  it('receives the reason of a refused tunnel as a response inside TLS', async () => {
    const { proxy, open } = await redirecting(to(443, [host]), {
      passthrough: () => 'tunnel',
      onTunnel: () => Promise.reject(new GatewayError('runtime.kill_switch')),
    });
    const secure = await secured(open(), host, proxy.authority.certPem);
    expect(codes(await exchange(secure, get(host)))).toEqual(['runtime.kill_switch']);
  });

  it.each([
    ['is malformed', Buffer.from([0x16, 9, 9, 0, 4]), 'proxy.tls_hello_invalid'],
    [
      'is too large',
      Buffer.concat(
        Array(3).fill(
          Buffer.from([0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff, ...Buffer.alloc(16_380)]),
        ),
      ),
      'proxy.tls_hello_too_large',
    ],
  ])('is closed with an alert if its ClientHello %s', async (_what, bytes, code) => {
    const { proxy, open } = await redirecting(to(443));
    const socket = open();
    socket.write(bytes);
    expect(await alertOf(socket)).toBe(40);
    expect(proxy.refusals).toEqual([code]);
  });

  it('is closed if its ClientHello does not arrive in time', async () => {
    const { proxy, open } = await redirecting(to(443), { limits: { handshakeMs: 50 } });
    const socket = open();
    socket.write(clientHello({ sni: host }).subarray(0, 20));
    expect(await alertOf(socket)).toBe(40);
    expect(proxy.refusals).toEqual(['proxy.tls_hello_timeout']);
  });
});

describe('a redirected connection with another protocol', () => {
  const greeting = '220 mail.example ESMTP\r\n';

  it.each([
    ['the server', 25],
    ['the client', 5432],
  ])(
    'is tunnelled to a passthrough host that a DNS answer named, when %s speaks first',
    async (who) => {
      const server = createServer((socket) => {
        if (who === 'the server') socket.write(greeting);
        socket.once('data', (chunk) => socket.end(`got ${chunk}`));
      });
      const port = await listening(server, cleanup);
      const { proxy, open } = await redirecting(to(port, ['mail.example.svc', 'mail.example']), {
        passthrough: (name) => (name === 'mail.example' ? 'tunnel' : 'intercept'),
      });
      const socket = open();
      if (who === 'the server') expect(String((await once(socket, 'data'))[0])).toBe(greeting);
      expect(await exchange(socket, '\x00\x01hello')).toContain('got \x00\x01hello');
      expect(proxy.tunnels).toMatchObject([{ host: 'mail.example', port }]);
    },
  );

  it.each([
    ['its host is not a passthrough host', 5432, [host], () => 'intercept' as const],
    ['no DNS answer named the address', 5432, [], () => 'tunnel' as const],
    ['its port is 443', 443, [host], () => 'tunnel' as const],
    ['its port is 80', 80, [host], () => 'tunnel' as const],
  ])('is refused if %s', async (_why, port, names, passthrough) => {
    const { proxy, open } = await redirecting(to(port, names), { passthrough });
    const socket = open();
    socket.write('\x00\x00\x00\x08');
    expect(await alertOf(socket)).toBeUndefined();
    expect(proxy.refusals).toEqual(['proxy.protocol_refused']);
    expect(proxy.tunnels).toEqual([]);
  });
});

describe('redirected connections', () => {
  it('that stay unused are closed without a refusal', async () => {
    const { proxy, open } = await redirecting(to(443), { limits: { handshakeMs: 50 } });
    const socket = open();
    await once(socket, 'close');
    open().end();
    await until(() => proxy.ingress.connections() === 0);
    expect(proxy.refusals).toEqual([]);
  });

  it('to a port of Sallyport itself are refused', async () => {
    const { proxy, open } = await redirecting(to(8182));
    proxy.guard.ownPorts.add(8182);
    const answer = await exchange(open(), get('localhost:8182'));
    expect(codes(answer)).toEqual(['proxy.address_refused']);
  });

  it('beyond the limit are closed', async () => {
    const { proxy, open } = await redirecting(to(80), { limits: { connectionsMax: 1 } });
    const first = open();
    await until(() => proxy.ingress.connections() === 1);
    await once(open(), 'close');
    expect(proxy.refusals).toEqual(['proxy.too_many_connections']);
    first.destroy();
  });

  it('finish their call when the sidecar drains, and idle ones are closed at once', async () => {
    let answer: (() => void) | undefined;
    const port = await httpUpstream(cleanup, (_req, res) => {
      answer = () => res.end('late');
    });
    const { proxy, open } = await redirecting(to(port));
    const idle = open();
    const busy = exchange(open(), get(`${host}:${port}`));
    await until(() => answer !== undefined && proxy.ingress.connections() === 2);
    const drained = proxy.ingress.close(20_000);
    await once(idle, 'close');
    answer?.();
    expect(await busy).toContain('late');
    await drained;
  });
});
