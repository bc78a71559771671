import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { listenError } from '../../shared/base/listen-error.ts';
import { answerQuery } from './answer-query.ts';
import type { SyntheticNames } from './synthetic-names.ts';

interface AnswerOptions {
  readonly names: SyntheticNames;
  readonly onQuery?: ((rcode: string) => void) | undefined;
}

interface DnsServerOptions extends AnswerOptions {
  /** The redirect rules send the agent's queries to this port; 0 selects any free port. */
  readonly port: number;
  readonly hosts: readonly string[];
}

export interface DnsServer {
  readonly port: number;
  close(): Promise<void>;
}

const tcpIdleMs = 10_000;
const tcpConnectionsMax = 64;
const lengthBytes = 2;

/** Answers DNS queries over UDP and TCP. Listens on the same port at each address in `hosts`. */
export async function startDnsServer(options: DnsServerOptions): Promise<DnsServer> {
  const { hosts } = options;
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    await Promise.all(closers.splice(0).map((closeOne) => closeOne()));
  };
  let { port } = options;
  try {
    for (const host of hosts) {
      const tcp = await listenTcp(options, { host, port });
      closers.push(tcp.close);
      port = tcp.port;
      const udp = await listenUdp(options, { host, port });
      closers.push(udp);
    }
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return { port, close };
}

interface At {
  readonly host: string;
  readonly port: number;
}

const settings = { hostSetting: 'SALLYPORT_DNS_PORT', portSetting: 'SALLYPORT_DNS_PORT' };

/** Answers DNS queries on sockets of another network namespace. */
export async function adoptDnsServer(
  {
    tcp,
    udp,
    family,
  }: { readonly tcp: number; readonly udp: number; readonly family: 'IPv4' | 'IPv6' },
  options: AnswerOptions,
): Promise<() => Promise<void>> {
  const { server, close: closeTcp } = tcpServer(options);
  server.listen({ fd: tcp });
  await once(server, 'listening');
  const socket = udpServer(options, family === 'IPv6');
  // `bind` emits `listening` before it returns.
  socket.bind({ fd: udp });
  socket.on('error', () => {});
  return async () => {
    await Promise.all([closeTcp(), closeUdp(socket)]);
  };
}

async function listenUdp(options: DnsServerOptions, at: At): Promise<() => Promise<void>> {
  const socket = udpServer(options, at.host.includes(':'));
  socket.bind(at.port, at.host);
  await once(socket, 'listening').catch((error: Error) => {
    throw listenError(error, { ...at, ...settings });
  });
  socket.on('error', () => {});
  return () => closeUdp(socket);
}

function closeUdp(socket: UdpSocket): Promise<void> {
  return new Promise((resolve) => socket.close(() => resolve()));
}

function udpServer({ names, onQuery }: AnswerOptions, isIpv6: boolean): UdpSocket {
  const socket = createSocket({ type: isIpv6 ? 'udp6' : 'udp4', ipv6Only: isIpv6 });
  socket.on('message', (message, from) => {
    const response = answerQuery(message, { names, transport: 'udp' });
    if (response === undefined) return;
    onQuery?.(response.rcode);
    // If the client no longer exists, this is not an error of the server.
    socket.send(response.bytes, from.port, from.address, () => {});
  });
  return socket;
}

async function listenTcp(
  options: DnsServerOptions,
  at: At,
): Promise<{ readonly port: number; readonly close: () => Promise<void> }> {
  const { server, close } = tcpServer(options);
  server.listen({ ...at, ipv6Only: at.host.includes(':') });
  await once(server, 'listening').catch((error: Error) => {
    throw listenError(error, { ...at, ...settings });
  });
  const { port } = server.address() as AddressInfo;
  return { port, close };
}

function tcpServer(options: AnswerOptions) {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    serveTcp(socket, options);
  });
  server.maxConnections = tcpConnectionsMax;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return { server, close };
}

/**
 * Answers queries on a TCP connection. Each message follows two bytes that contain its length (RFC
 * 1035 section 4.2.2).
 */
function serveTcp(socket: Socket, { names, onQuery }: AnswerOptions): void {
  let unread = Buffer.alloc(0);
  socket.setTimeout(tcpIdleMs, () => socket.destroy());
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    unread = Buffer.concat([unread, chunk]);
    while (unread.length >= lengthBytes) {
      const end = lengthBytes + unread.readUInt16BE(0);
      if (unread.length < end) return;
      const response = answerQuery(unread.subarray(lengthBytes, end), { names, transport: 'tcp' });
      unread = unread.subarray(end);
      if (response === undefined) return void socket.destroy();
      onQuery?.(response.rcode);
      const length = Buffer.alloc(lengthBytes);
      length.writeUInt16BE(response.bytes.length);
      // If the client does not read its responses, its queries are not read either.
      if (!socket.write(Buffer.concat([length, response.bytes]))) {
        socket.pause();
        socket.once('drain', () => socket.resume());
      }
    }
  });
}
