import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { clientHello } from '../../support/sidecar/client-hello.ts';
import {
  Cleanup,
  listening,
  raw,
  startProxy,
  type TestProxy,
  until,
} from '../../support/sidecar/proxy.ts';

let cleanup: Cleanup;
let upstreamSockets: Socket[];
let port: number;

beforeEach(async () => {
  cleanup = new Cleanup();
  upstreamSockets = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    upstreamSockets.push(socket);
    socket.on('data', (chunk) => socket.write(chunk));
    socket.on('end', () => socket.end('bye'));
  });
  port = await listening(server, cleanup);
});
afterEach(() => cleanup.run());

const tunnelling = (options: Parameters<typeof startProxy>[1] = {}) =>
  startProxy(cleanup, { passthrough: () => 'tunnel', ...options });

const connectTo = (to: number | string) =>
  `CONNECT 127.0.0.1:${to} HTTP/1.1\r\nHost: 127.0.0.1:${to}\r\n\r\n`;

/** This ClientHello has no SNI, because an SNI cannot name an address. */
const hello = clientHello();

function open(
  proxy: TestProxy,
  behind = '',
  allowHalfOpen = false,
): Promise<{ socket: Socket; text: () => string }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen });
    cleanup.add(() => socket.destroy());
    let text = '';
    socket.on('error', reject);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (text.includes('\r\n\r\n'))
        resolve({ socket, text: () => text.split('\r\n\r\n').slice(1).join('\r\n\r\n') });
    });
    socket.write(Buffer.concat([Buffer.from(connectTo(port)), hello, Buffer.from(behind)]));
  });
}

describe('a tunnel', () => {
  it('forwards any bytes and half-closes in both directions, and counts the bytes', async () => {
    const proxy = await tunnelling();
    const { socket, text } = await open(proxy, 'early ', true);
    socket.write('\x00\xff not http');
    await until(() => text().includes('not http'));
    socket.end();
    await until(() => text().endsWith('bye'));
    const [tunnel] = proxy.tunnels;
    expect(tunnel).toMatchObject({ host: '127.0.0.1', port });
    const sent = hello.length + Buffer.byteLength('early \x00\xff not http');
    expect(await tunnel?.ended).toEqual({
      sentBytes: sent,
      receivedBytes: sent + 3,
      failure: undefined,
    });
    expect(proxy.exchanges).toEqual([]);
  });

  it('applies backpressure to the upstream if the agent reads slowly', async () => {
    const proxy = await tunnelling();
    const { socket } = await open(proxy);
    socket.pause();
    const [upstream] = upstreamSockets;
    if (upstream === undefined) throw new Error('no upstream');
    upstream.on('error', () => {});
    const piece = Buffer.alloc(65_536);
    while (upstream.write(piece));
    let written = 0;
    let drained = performance.now();
    upstream.on('drain', () => {
      drained = performance.now();
      while (upstream.write(piece)) written += piece.length;
    });
    await until(() => performance.now() - drained > 300, 'backpressure');
    expect(written).toBeLessThan(64 * 1024 * 1024);
    let received = 0;
    socket.on('data', (chunk) => {
      received += chunk.length;
    });
    socket.resume();
    await until(() => received > 8 * 1024 * 1024);
  });

  it('is recorded before the upstream is dialled, and can be refused at that point', async () => {
    const proxy = await tunnelling({
      onTunnel: () => {
        throw new GatewayError('runtime.kill_switch');
      },
    });
    expect(await raw(proxy.port, connectTo(port))).toMatch(
      /^HTTP\/1\.1 403 [\s\S]*runtime\.kill_switch/,
    );
    expect(upstreamSockets).toEqual([]);
  });

  it('can be closed by the sidecar while it is open', async () => {
    const proxy = await tunnelling();
    const { socket } = await open(proxy);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await until(() => proxy.tunnels.length === 1);
    proxy.tunnels[0]?.close();
    await closed;
    await proxy.tunnels[0]?.ended;
    await until(() => upstreamSockets[0]?.destroyed ?? false);
  });

  it('does not dial the upstream if the sidecar closes the tunnel before dialling', async () => {
    const proxy = await tunnelling({ onTunnel: (tunnel) => tunnel.close() });
    expect(await raw(proxy.port, connectTo(port))).toMatch(/^HTTP\/1\.1 50\d /);
    expect(upstreamSockets).toEqual([]);
  });

  it.each([
    ['loopback', '127.0.0.1'],
    ['metadata', '169.254.169.254'],
    ['metadata in another spelling', '0xa9.0xfea9fe'],
    ['an IPv4-mapped IPv6 address', '[::ffff:10.0.0.1]'],
  ])('is refused to an address that is not allowed: %s', async (_what, host) => {
    const proxy = await tunnelling({ allowPrivate: [] });
    const answer = await raw(
      proxy.port,
      `CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 403 [\s\S]*proxy\.address_refused/);
    expect(upstreamSockets).toEqual([]);
    expect((await proxy.tunnels[0]?.ended)?.failure).toBeDefined();
  });

  it('is refused with 502 if nothing listens, and ends after the idle timeout', async () => {
    const gone = new Cleanup();
    const nobody = await listening(createServer(), gone);
    await gone.run();
    const proxy = await tunnelling({ limits: { tunnelIdleMs: 50 } });
    expect(await raw(proxy.port, connectTo(nobody))).toMatch(/^HTTP\/1\.1 502 /);
    const { socket } = await open(proxy);
    await new Promise((resolve) => socket.once('close', resolve));
    expect((await proxy.tunnels[1]?.ended)?.failure).toMatch(/silent/);
  });

  it('ends on both sides if one side resets the connection', async () => {
    const proxy = await tunnelling();
    const { socket } = await open(proxy);
    socket.removeAllListeners('error').on('error', () => {});
    const closed = new Promise((resolve) => socket.once('close', resolve));
    upstreamSockets[0]?.resetAndDestroy();
    await closed;
    expect((await proxy.tunnels[0]?.ended)?.failure).toBeDefined();
  });

  it('is not opened without the proxy token', async () => {
    const proxy = await tunnelling({ token: 's3cret' });
    expect(await raw(proxy.port, connectTo(port))).toMatch(/^HTTP\/1\.1 407 /);
    expect(proxy.tunnels).toEqual([]);
  });

  it('ends when the ingress closes', async () => {
    const proxy = await tunnelling();
    const { socket } = await open(proxy);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await proxy.ingress.close(50);
    await closed;
  });
});
