import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TunnelEnd } from '../../../proxy/ingress/tunnel.ts';
import { admitHello } from '../../../proxy/ingress/tunnel-hello.ts';
import {
  clientHello,
  helloMessage,
  helloRetryRequest,
  inRecords,
  sniExtension,
} from '../../support/sidecar/client-hello.ts';
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

const host = 'model.example';
let cleanup: Cleanup;
let proxy: TestProxy;
let received: Buffer;
let port: number;
/** The upstream's response to the first bytes. */
let answer: Buffer;

beforeEach(async () => {
  cleanup = new Cleanup();
  received = Buffer.alloc(0);
  answer = Buffer.from('anything');
  const server = createServer((socket) => {
    socket.once('data', () => socket.write(answer));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
    });
  });
  port = await listening(server, cleanup);
  proxy = await tunnelling();
});
afterEach(() => cleanup.run());

function tunnelling(options: Parameters<typeof startProxy>[1] = {}): Promise<TestProxy> {
  return startProxy(cleanup, {
    passthrough: () => 'tunnel',
    guard: everythingIsHere(),
    ...options,
  });
}

async function opened(to = `${host}:${port}`): Promise<Socket> {
  const socket = connect(proxy.port, '127.0.0.1');
  cleanup.add(() => socket.destroy());
  socket.on('error', () => {});
  socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
  const [head] = await once(socket, 'data');
  expect(String(head)).toMatch(/^HTTP\/1\.1 200 /);
  return socket;
}

/**
 * Sends the bytes inside a tunnel; resolves with the end of the tunnel and the bytes that the agent
 * received.
 */
async function refusedWith(bytes: Buffer, to?: string): Promise<TunnelEnd & { read: string }> {
  const socket = await opened(to);
  let read = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    read += chunk;
  });
  socket.write(bytes);
  const end = await lastEnd();
  if (!socket.closed) await once(socket, 'close');
  expect(received).toEqual(Buffer.alloc(0));
  return { ...end, read };
}

async function lastEnd(): Promise<TunnelEnd> {
  await until(() => proxy.tunnels.length > 0);
  const end = await proxy.tunnels.at(-1)?.ended;
  if (end === undefined) throw new Error('no tunnel');
  return end;
}

const alert = (description: number) =>
  `\x15\x03\x01\x00\x02\x02${String.fromCharCode(description)}`;
const big = (bytes: number) => helloMessage({ sni: host, extensions: [[21, Buffer.alloc(bytes)]] });

describe('TLS in a tunnel', () => {
  it('is forwarded if its SNI equals the host of CONNECT, and the SNI is reported', async () => {
    const authority = testAuthority(cleanup);
    port = await httpsUpstream(cleanup, authority, (_req, res) => res.end('hello'), host);
    const requestTls = { ca: authority.certPem };
    const dispatcher = new ProxyAgent({ uri: proxy.url, requestTls });
    const response = await request(`https://${host}:${port}/`, { dispatcher });
    expect(await response.body.text()).toBe('hello');
    await dispatcher.close();
    const end = await lastEnd();
    expect(end.sni).toBe(host);
    expect(end.refusal).toBeUndefined();
  });

  it('is refused if its SNI is not the host of CONNECT, although the same address could serve both hosts', async () => {
    const socket = await opened();
    const secured = connectTls({ socket, servername: 'other.example', ca: [] });
    const [error] = await once(secured, 'error');
    expect(error).toMatchObject({ code: 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME' });
    expect(await lastEnd()).toMatchObject({ refusal: 'proxy.sni_mismatch', sni: 'other.example' });
    expect(received).toEqual(Buffer.alloc(0));
  });

  it.each([
    ['no SNI', clientHello(), 'proxy.sni_missing', 112],
    ['another host in SNI', clientHello({ sni: 'evil.example' }), 'proxy.sni_mismatch', 112],
    ['a subdomain in SNI', clientHello({ sni: `a.${host}` }), 'proxy.sni_mismatch', 112],
    ['a NUL in SNI', clientHello({ sni: `${host}\0` }), 'proxy.sni_mismatch', 112],
    ['an IP address in SNI', clientHello({ sni: '127.0.0.1' }), 'proxy.sni_mismatch', 112],
    [
      'Encrypted Client Hello',
      clientHello({ sni: host, extensions: [[0xfe0d, Buffer.from([0, 0, 1, 0, 1, 7])]] }),
      'proxy.ech_refused',
      40,
    ],
    [
      'encrypted SNI',
      clientHello({ sni: host, extensions: [[0xffce, Buffer.alloc(8)]] }),
      'proxy.ech_refused',
      40,
    ],
    [
      'two names in SNI',
      clientHello({ extensions: [sniExtension(host, 'evil.example')] }),
      'proxy.tls_hello_invalid',
      40,
    ],
    [
      'two SNI extensions',
      clientHello({ sni: host, extensions: [sniExtension('evil.example')] }),
      'proxy.tls_hello_invalid',
      40,
    ],
    [
      'a second ClientHello after the first',
      inRecords(
        Buffer.concat([helloMessage({ sni: host }), helloMessage({ sni: 'evil.example' })]),
      ),
      'proxy.tls_hello_invalid',
      40,
    ],
    ['an empty record', Buffer.from([0x16, 3, 1, 0, 0]), 'proxy.tls_hello_invalid', 40],
    ['an older record version', Buffer.from([0x16, 2, 0, 0, 1, 1]), 'proxy.tls_hello_invalid', 40],
    [
      'another message before the ClientHello',
      inRecords(Buffer.from([2, 0, 0, 1, 0])),
      'proxy.tls_hello_invalid',
      40,
    ],
    ['a ClientHello above 32 KiB', inRecords(big(40_000)), 'proxy.tls_hello_too_large', 40],
    ['endless tiny records', inRecords(big(32_000), 1), 'proxy.tls_hello_too_large', 40],
    [
      'another protocol',
      Buffer.from('\x00\x00\x00\x08\x04\xd2\x16\x2f', 'latin1'),
      'proxy.protocol_refused',
      40,
    ],
  ])('is refused with %s', async (_what, bytes, refusal, description) => {
    expect(await refusedWith(bytes)).toMatchObject({ refusal, read: alert(description) });
  });

  it.each([
    ['one byte in each record', inRecords(helloMessage({ sni: host }), 1)],
    ['upper-case letters in SNI', clientHello({ sni: 'Model.EXAMPLE' })],
    ['a ClientHello of several records', inRecords(big(20_000))],
  ])('is forwarded with %s', async (_what, bytes) => {
    const socket = await opened();
    socket.write(bytes);
    await until(() => received.equals(bytes));
  });

  it('is forwarded with one byte in each segment, but not before the ClientHello is complete', async () => {
    const socket = await opened();
    socket.setNoDelay(true);
    const bytes = clientHello({ sni: host });
    for (const byte of bytes.subarray(0, -1)) {
      socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(received.length).toBe(0);
    socket.write(bytes.subarray(-1));
    await until(() => received.equals(bytes));
  });

  it('is forwarded to an IP address without SNI, and refused with SNI', async () => {
    const bytes = clientHello();
    const socket = await opened(`127.0.0.1:${port}`);
    socket.write(bytes);
    await until(() => received.equals(bytes));
    received = Buffer.alloc(0);
    const named = clientHello({ sni: 'evil.example' });
    expect(await refusedWith(named, `127.0.0.1:${port}`)).toMatchObject({
      refusal: 'proxy.sni_mismatch',
    });
  });

  it('is refused if no complete ClientHello arrives in time', async () => {
    proxy = await tunnelling({ limits: { handshakeMs: 100 } });
    const bytes = clientHello({ sni: host }).subarray(0, 20);
    expect(await refusedWith(bytes)).toMatchObject({ refusal: 'proxy.tls_hello_timeout' });
    expect(await refusedWith(Buffer.alloc(0))).toMatchObject({
      refusal: 'proxy.tls_hello_timeout',
    });
  });

  it('ends without a refusal if the agent disconnects before the ClientHello is complete', async () => {
    const socket = await opened();
    socket.end(clientHello({ sni: host }).subarray(0, 20));
    const end = await lastEnd();
    expect(end.refusal).toBeUndefined();
    expect(end.failure).toMatch(/closed before/);
  });

  it('does not let the agent receive bytes that a server sends before the ClientHello', async () => {
    const banner = await listening(
      createServer((socket) => socket.write('220 mail ready\r\n')),
      cleanup,
    );
    proxy = await tunnelling({ limits: { handshakeMs: 100 } });
    const end = await refusedWith(Buffer.alloc(0), `${host}:${banner}`);
    expect(end).toMatchObject({ refusal: 'proxy.tls_hello_timeout', read: alert(40) });
  });

  it('is checked again if the server requests a second ClientHello', async () => {
    answer = helloRetryRequest();
    const [first, second] = [clientHello({ sni: host }), clientHello({ sni: 'evil.example' })];
    const earlyData = Buffer.from([0x17, 3, 3, 0, 3, 1, 2, 3]);
    const changeCipher = Buffer.from([0x14, 3, 3, 0, 1, 1]);
    const honest = await opened();
    const all = Buffer.concat([first, earlyData, changeCipher, first]);
    honest.write(all);
    await until(() => received.equals(all));
    received = Buffer.alloc(0);
    const hostile = await opened();
    hostile.write(Buffer.concat([first, changeCipher, second]));
    expect(await lastEnd()).toMatchObject({ refusal: 'proxy.sni_mismatch', sni: 'evil.example' });
    expect(received.includes('evil.example')).toBe(false);
  });
});

describe('plain HTTP in a tunnel', () => {
  it('is judged call by call, and each Host must equal the host of CONNECT', async () => {
    port = await httpUpstream(cleanup, (_req, res) => res.end('plain'));
    const dispatcher = new ProxyAgent({ uri: proxy.url, proxyTunnel: true });
    const response = await request(`http://${host}:${port}/a`, { dispatcher });
    expect(await response.body.text()).toBe('plain');
    await dispatcher.close();
    expect(proxy.exchanges).toMatchObject([{ host, port, target: '/a', scheme: 'http' }]);
    expect((await lastEnd()).refusal).toBeUndefined();
    const socket = await opened();
    socket.write('GET /b HTTP/1.1\r\nHost: evil.example\r\n\r\n');
    const [refused] = await once(socket, 'data');
    expect(String(refused)).toContain('proxy.host_mismatch');
  });

  it('is refused on port 443, like any protocol other than TLS', async () => {
    const server = createServer();
    const near = await listening(server, cleanup);
    const first = async (bytes: string) => {
      const agentSide = connect(near, '127.0.0.1');
      cleanup.add(() => agentSide.destroy());
      const [agent] = (await once(server, 'connection')) as [Socket];
      agentSide.write(Buffer.from(bytes, 'latin1'));
      const upstream = connect(port, '127.0.0.1');
      cleanup.add(() => upstream.destroy());
      const ends = { agent, upstream, host, port: 443, handshakeMs: 5_000 };
      return admitHello({ ...ends, mayBeOpaque: false });
    };
    const required = expect.objectContaining({ code: 'proxy.tls_required' });
    expect(await first('GET / HTTP/1.1\r\n')).toEqual({ kind: 'http', refusal: required });
    await expect(first('\x00\x00\x00\x08')).rejects.toEqual(required);
  });
});
