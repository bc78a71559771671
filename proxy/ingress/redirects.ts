import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import { normaliseHost } from '../../shared/base/host.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import { type ClientHello, ClientHelloReader } from '../tls/client-hello.ts';
import { carryTunnel } from './carry-tunnel.ts';
import { interceptOpening, isTunnelled, type OnIntercepted } from './open-connection.ts';
import type { IngressContext } from './options.ts';
import type { Destination } from './peer.ts';
import { readUntil } from './read-until.ts';
import { ownPort } from './requests.ts';
import { alertAndClose, helloBytesMax } from './tunnel-hello.ts';

interface Redirects {
  accept(socket: Socket, destination: Destination): void;
}

interface RedirectsOptions {
  readonly onIntercepted: OnIntercepted;
  /** Receives a connection with HTTP requests, whose Host headers name the destination. */
  readonly onHttp: (socket: Socket, destination: Destination) => void;
  /** Called when the first bytes of a connection have been read. */
  readonly onOpening: (socket: Socket) => void;
}

/** On these ports, only TLS and HTTP are expected; another protocol would be disguised. */
const httpPorts: ReadonlySet<number> = new Set([80, 443]);
const confirm = () => {};

/**
 * Opens redirected connections. The destination is the name in the SNI (TLS) or in the Host header
 * (plain HTTP). The sidecar resolves this name itself and does not dial the address that the agent
 * used. A connection with another protocol contains no name, so it can only be tunnelled to a
 * passthrough host that the agent named in a DNS query.
 */
export function createRedirects(context: IngressContext, options: RedirectsOptions): Redirects {
  const { limits, log, guard } = context;
  const { onIntercepted, onHttp, onOpening } = options;

  function assertNotOwn(authority: Authority): void {
    if (guard.isOwn(authority.host, authority.port)) throw ownPort(authority);
  }

  async function openTunnel(socket: Socket, authority: Authority, mayBeOpaque: boolean) {
    onOpening(socket);
    await carryTunnel(context, { socket, authority, confirm, mayBeOpaque }, (refusal) =>
      onIntercepted({ scheme: 'http', socket, refusal }, authority),
    );
  }

  /**
   * Opens a TLS connection to the host in its SNI. If a tunnel to this host is refused, intercepts
   * the connection to send the refusal inside the TLS.
   */
  async function openTls(socket: Socket, hello: ClientHello, destination: Destination) {
    const authority = { host: tlsHost(hello, destination), port: destination.port };
    assertNotOwn(authority);
    let refusal: GatewayError | undefined;
    if (isTunnelled(context, authority)) {
      try {
        await openTunnel(socket, authority, false);
        return;
      } catch (thrown) {
        refusal = toGatewayError(thrown);
      }
    }
    onOpening(socket);
    const opening = { socket, authority, confirm, mayBeOpaque: false };
    interceptOpening(context, opening, (intercepted) =>
      onIntercepted({ ...intercepted, refusal: refusal ?? intercepted.refusal }, authority),
    );
  }

  async function open(socket: Socket, destination: Destination): Promise<void> {
    const opaque = opaqueTarget(context, destination);
    if (opaque !== undefined) {
      assertNotOwn(opaque);
      // `onTunnel` reports its own decision.
      await openTunnel(socket, opaque, true).catch(() => socket.resetAndDestroy());
      return;
    }
    const first = await readFirst(socket, limits.handshakeMs);
    if (first === 'http') onHttp(socket, destination);
    else await openTls(socket, first, destination);
  }

  return {
    accept(socket, destination) {
      socket.on('error', () => {});
      open(socket, destination).catch((thrown: unknown) => {
        // Clients open connections ahead of time and may never use them.
        if (thrown instanceof UnusedConnection) socket.destroy();
        else refuse(toGatewayError(thrown), { socket, destination });
      });
    },
  };

  function refuse(
    error: GatewayError,
    { socket, destination }: { readonly socket: Socket; readonly destination: Destination },
  ): void {
    const host = destination.names[0] ?? destination.address;
    log[error.kind.level]({ err: error, code: error.code, host }, 'redirected connection refused');
    context.refused(error, host);
    // A TLS library can report an alert. With `proxy.protocol_refused`, the client uses another
    // protocol and would read an alert as data, so the connection is reset.
    if (error.code === 'proxy.protocol_refused') socket.resetAndDestroy();
    else if (!socket.destroyed) alertAndClose(socket, error);
  }
}

/** The passthrough host of a connection that may contain any protocol; undefined for all others. */
function opaqueTarget(
  context: IngressContext,
  { names, port }: Destination,
): Authority | undefined {
  if (httpPorts.has(port)) return undefined;
  const host = names.find((name) => isTunnelled(context, { host: name, port }));
  return host === undefined ? undefined : { host, port };
}

/** The host that TLS names. Only a connection to an address without a name may lack the SNI. */
function tlsHost({ serverName }: ClientHello, { address, names }: Destination): string {
  if (serverName === undefined && names.length === 0) return address;
  const host = serverName === undefined ? undefined : normaliseHost(serverName);
  if (host === undefined) throw new GatewayError('proxy.sni_missing');
  return host;
}

/** Thrown if the agent closed the connection before its first message was complete. */
class UnusedConnection extends Error {}

/** Reads the first bytes without consuming them: a ClientHello, or `http`. */
async function readFirst(socket: Socket, timeoutMs: number): Promise<ClientHello | 'http'> {
  const reader = new ClientHelloReader({ bytesMax: helloBytesMax });
  const late = new GatewayError('proxy.tls_hello_timeout');
  let isUsed = false;
  const read = readUntil(socket, { timeoutMs, late }, (chunk) => {
    isUsed = true;
    const reading = reader.push(chunk);
    return reading.kind === 'more' ? undefined : reading;
  });
  const { value, bytes } = await read.catch((error: unknown) => {
    throw isUsed && error instanceof GatewayError ? error : new UnusedConnection();
  });
  socket.unshift(bytes);
  switch (value.kind) {
    case 'hello':
      return value.hello;
    case 'http':
      return 'http';
    case 'other':
      throw new GatewayError('proxy.protocol_refused');
    case 'malformed':
      throw new GatewayError('proxy.tls_hello_invalid');
    case 'too_large':
      throw new GatewayError('proxy.tls_hello_too_large');
  }
}
