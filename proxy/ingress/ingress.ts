import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { listenError } from '../../shared/base/listen-error.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { createConnects } from './connects.ts';
import { isIgnoredUpgrade } from './head.ts';
import { defaultLimits, type IngressLimits } from './limits.ts';
import type { OnIntercepted } from './open-connection.ts';
import type { IngressContext, IngressOptions } from './options.ts';
import type { Destination, Peer } from './peer.ts';
import { createRedirects } from './redirects.ts';
import { refuseSocket } from './refusal.ts';
import { createRequests } from './requests.ts';

/** The forward proxy that agents connect to, on one port. */
export interface Ingress {
  readonly server: Server;
  /** Number of open connections. */
  connections(): number;
  /** Listens and returns the address. A token is required unless the address is loopback. */
  listen(port: number, host?: string): Promise<AddressInfo>;
  /** Serves a connection that another server accepted because network rules redirected it. */
  acceptRedirected(socket: Socket, destination: Destination): void;
  /**
   * Accepts no more connections, lets calls in flight finish for at most `graceMs`, and closes the
   * rest.
   */
  close(graceMs: number): Promise<void>;
}

const checkEveryMs = 2_000;
/**
 * Number of connections above the limit that receive a refusal as a response; all further
 * connections are dropped without a response.
 */
const toldNoMax = 16;

/**
 * An HTTP/1.1 forward proxy that reads all requests: `http://` requests in absolute form, and
 * `https://` requests inside an intercepted CONNECT. One server parses both and passes them to
 * `handle`.
 */
export function createIngress(options: IngressOptions): Ingress {
  const limits = { ...defaultLimits, ...options.limits };
  const proves = options.token === undefined ? () => true : tokenCheck(options.token);
  let draining = false;

  const context: IngressContext = {
    ...options,
    limits,
    draining: () => draining,
    refused(error, host) {
      options.log.debug({ code: error.code, host }, error.message);
      options.onRefusal?.({ code: error.code, host });
    },
  };
  const server = createHttpServer(limits);
  const connections = trackConnections(server, limits.connectionsMax);
  server.on('drop', () => context.refused(tooMany()));
  const { sockets, parsed, peers } = connections;
  const requests = createRequests(context, proves, (socket) => {
    if (draining) socket.destroySoon();
  });
  const onIntercepted: OnIntercepted = ({ scheme, socket, refusal }, authority) => {
    peers.set(socket, { inside: { ...authority, scheme }, refusal, waiting: [] });
    server.emit('connection', socket);
  };
  const connects = createConnects(context, proves, onIntercepted);
  const redirects = createRedirects(context, {
    onIntercepted,
    onOpening: (socket) => parsed.delete(socket),
    onHttp(socket, redirected) {
      peers.set(socket, { redirected, waiting: [] });
      server.emit('connection', socket);
    },
  });

  server.on('request', (req, res) => {
    const peer = peers.get(req.socket);
    if (peer === undefined) req.socket.destroy();
    else requests.accept(peer, { req, res });
  });
  server.on('connect', (req, socket: Socket, head: Buffer) => {
    parsed.delete(socket);
    connects.accept(peers.get(socket), { req, socket, head });
  });
  server.on('upgrade', (req, socket: Socket, head) => {
    parsed.delete(socket);
    const peer = peers.get(socket);
    if (peer === undefined) socket.destroy();
    else requests.upgrade(peer, req, socket, head);
  });
  server.on('timeout', (socket: Socket) => {
    const peer = peers.get(socket);
    if (peer !== undefined) requests.stalled(peer);
  });
  server.on('clientError', (error, socket) => {
    const refusal = parserRefusal(error);
    // A second response would corrupt the one that is being sent.
    const isAnswering = peers.get(socket)?.current !== undefined;
    if (refusal === undefined || isAnswering) socket.destroy();
    else refuseConnection(context, socket, refusal);
  });

  return {
    server,
    connections: () => sockets.size,
    listen: (port, host) => listen(server, options, { port, host }),
    acceptRedirected(socket, destination) {
      const isFull = sockets.size >= limits.connectionsMax;
      if (isFull) context.refused(tooMany());
      if (isFull || draining) socket.destroy();
      else {
        connections.add(socket);
        redirects.accept(socket, destination);
      }
    },
    close(graceMs) {
      draining = true;
      return drain(server, connections, graceMs);
    },
  };
}

function refuseConnection(context: IngressContext, socket: Duplex, refusal: GatewayError): void {
  context.refused(refusal);
  refuseSocket(socket, refusal);
}

interface Connections {
  /** All accepted connections, including tunnels. */
  readonly sockets: Set<Socket>;
  /** Connections that the HTTP parser reads, including intercepted ones. */
  readonly parsed: Set<Socket>;
  readonly peers: WeakMap<Duplex, Peer>;
  /** Counts an accepted connection, which the HTTP parser reads or will read. */
  add(socket: Socket): void;
}

function tooMany(): GatewayError {
  return new GatewayError('proxy.too_many_connections');
}

function trackConnections(server: Server, connectionsMax: number): Connections {
  const sockets = new Set<Socket>();
  const parsed = new Set<Socket>();
  const peers = new WeakMap<Duplex, Peer>();
  const parse = (socket: Socket) => {
    parsed.add(socket);
    socket.once('close', () => parsed.delete(socket));
  };
  const add = (socket: Socket) => {
    parse(socket);
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };
  server.on('connection', (socket: Socket) => {
    // Intercepted connections also emit this event; their underlying socket is already counted.
    if (peers.has(socket)) {
      parse(socket);
      return;
    }
    const refusal = sockets.size < connectionsMax ? undefined : tooMany();
    peers.set(socket, { waiting: [], refusal });
    add(socket);
  });
  return { sockets, parsed, peers, add };
}

async function listen(
  server: Server,
  { token, guard }: IngressOptions,
  { port, host = '127.0.0.1' }: { readonly port: number; readonly host: string | undefined },
): Promise<AddressInfo> {
  if (token === undefined && !isLoopback(host)) {
    throw new Error(`Set SALLYPORT_PROXY_TOKEN to listen on ${host}: anybody there could act.`);
  }
  server.listen(port, host);
  await once(server, 'listening').catch((error: Error) => {
    const settings = { hostSetting: 'SALLYPORT_PROXY_HOST', portSetting: 'SALLYPORT_PROXY_PORT' };
    throw listenError(error, { host, port, ...settings });
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('No TCP port.');
  guard.ownPorts.add(address.port);
  return address;
}

async function drain(
  server: Server,
  { sockets, parsed, peers }: Connections,
  graceMs: number,
): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const allClosed = Promise.all([closed, ...[...sockets].map((socket) => socketClosed(socket))]);
  for (const socket of parsed) {
    const current = peers.get(socket)?.current;
    if (current === undefined) socket.destroy();
    // If the response has not begun, it announces that the connection closes.
    else current.res.shouldKeepAlive = false;
  }
  const timer = setTimeout(() => {
    for (const socket of sockets) socket.destroy();
  }, graceMs);
  await allClosed;
  clearTimeout(timer);
}

function socketClosed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
}

function createHttpServer(limits: IngressLimits): Server {
  const server = createServer({
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headMs,
    // A long upload is allowed; `server.timeout` ends an upload that stalls.
    requestTimeout: 0,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: checkEveryMs,
    // The ingress checks the Host header itself, so that the refusal has the same form as others.
    requireHostHeader: false,
    insecureHTTPParser: false,
    shouldUpgradeCallback: ({ headers }) => !isIgnoredUpgrade(headers.upgrade ?? ''),
    // TCP keep-alive detects agents that disappeared without closing the connection.
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  });
  server.timeout = limits.bodyIdleMs;
  server.maxConnections = limits.connectionsMax + toldNoMax;
  // The parser would silently drop headers beyond its limit, so `readHead` enforces ours instead.
  server.maxHeadersCount = 0;
  return server;
}

/** The refusal for an error of the HTTP parser; undefined if the agent has disconnected. */
function parserRefusal(error: NodeJS.ErrnoException): GatewayError | undefined {
  switch (error.code) {
    case 'ECONNRESET':
    case 'EPIPE':
      return undefined;
    case 'HPE_HEADER_OVERFLOW':
      return new GatewayError('proxy.headers_too_large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new GatewayError('proxy.request_timeout');
    default:
      return new GatewayError('proxy.request_invalid', { cause: error });
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

const digest = (text: string) => createHash('sha256').update(text).digest();

/**
 * Whether a `Proxy-Authorization` value contains the token: as `Bearer <token>`, as the Basic
 * password, or as the Basic user name without a password (`http://token@proxy`).
 */
function tokenCheck(token: string): (authorization: string | undefined) => boolean {
  const expected = digest(token);
  const isToken = (candidate: string) => timingSafeEqual(digest(candidate), expected);
  return (authorization) => {
    const parts = /^(bearer|basic) +([^\s]+)$/i.exec(authorization ?? '');
    const credentials = parts?.[2] ?? '';
    if (parts?.[1]?.toLowerCase() === 'bearer') return isToken(credentials);
    const pair = Buffer.from(credentials, 'base64').toString();
    const colon = pair.indexOf(':');
    const [user, password] = colon < 0 ? [pair, ''] : [pair.slice(0, colon), pair.slice(colon + 1)];
    return isToken(password === '' ? user : password);
  };
}
