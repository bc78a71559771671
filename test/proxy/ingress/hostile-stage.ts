import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import {
  bodyOf,
  Cleanup,
  httpUpstream,
  startProxy,
  type TestProxy,
} from '../../support/sidecar/proxy.ts';

/** A proxy, and an upstream behind it that records the hostile requests that reach it. */
export interface HostileStage {
  readonly cleanup: Cleanup;
  readonly proxy: TestProxy;
  /** The requests that reached the upstream: method, target and body. */
  readonly seen: string[];
  /** The upstream's port. */
  readonly port: number;
  /** Returns an absolute-form target on the upstream. */
  target(path?: string): string;
  /** Returns the Host header of the upstream. */
  host(): string;
  /** Sends a CONNECT; resolves with the socket after the proxy has answered with 200. */
  connected(to: string, proxyPort?: number): Promise<Socket>;
  /** Starts TLS on this socket and trusts the proxy's authority. */
  secured(socket: Socket, servername: string, alpn?: string[]): Promise<TLSSocket>;
}

export const close = 'Connection: close\r\n';

export async function hostileStage(): Promise<HostileStage> {
  const cleanup = new Cleanup();
  const seen: string[] = [];
  const port = await httpUpstream(cleanup, async (req, res) => {
    const body = await bodyOf(req).catch(() => undefined);
    if (body === undefined) return;
    seen.push(`${req.method} ${req.url} ${body}`);
    res.end('upstream');
  });
  const proxy = await startProxy(cleanup);
  return {
    cleanup,
    proxy,
    seen,
    port,
    target: (path = '/') => `http://127.0.0.1:${port}${path}`,
    host: () => `Host: 127.0.0.1:${port}\r\n`,
    connected: (to, proxyPort = proxy.port) => connected(cleanup, to, proxyPort),
    secured: (socket, servername, alpn) =>
      secured(socket, { servername, ca: proxy.authority.certPem, alpn }),
  };
}

export function codes(text: string): string[] {
  return [...text.matchAll(/"reason_code":"([^"]+)"/g)].map((match) => match[1] ?? '');
}

export function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
}

function connected(cleanup: Cleanup, to: string, proxyPort: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(proxyPort, '127.0.0.1');
    cleanup.add(() => socket.destroy());
    socket.on('error', reject);
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
    socket.once('data', (chunk) => {
      if (chunk.toString().startsWith('HTTP/1.1 200')) resolve(socket);
      else reject(new Error(chunk.toString()));
    });
  });
}

function secured(
  socket: Socket,
  { servername, ca, alpn }: { servername: string; ca: string; alpn: string[] | undefined },
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const secure = connectTls({
      socket,
      servername,
      ca,
      checkServerIdentity: () => undefined,
      ...(alpn !== undefined && { ALPNProtocols: alpn }),
    });
    secure.on('error', reject);
    secure.once('close', () => reject(new Error('closed')));
    secure.once('secureConnect', () => resolve(secure));
  });
}

/** Sends bytes; resolves with everything received until the connection closes. */
export function exchange(socket: Socket, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.once('close', () => resolve(text));
    socket.on('error', () => {});
    socket.write(bytes);
  });
}
