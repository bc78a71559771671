import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type Authority, isAddress } from '../../shared/base/host.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Leaf } from '../tls/authority.ts';

/** The content of a CONNECT. */
export interface Intercepted {
  readonly scheme: 'http' | 'https';
  readonly socket: Socket;
  /** Set if the SNI inside names another host than the CONNECT. */
  readonly refusal?: GatewayError | undefined;
}

interface Interception {
  readonly socket: Socket;
  /** Reports to the agent that its connection is open. */
  readonly confirm: () => void;
  readonly authority: Authority;
  readonly leaf: () => Leaf;
  readonly handshakeMs: number;
  readonly onReady: (intercepted: Intercepted) => void;
  /** Called once, instead of `onReady`, when the connection is closed; no response is possible then. */
  readonly onFailed: (error: GatewayError) => void;
}

// RFC 8446 section 5.1: the record type of a ClientHello.
const tlsHandshake = 0x16;

/**
 * Accepts a connection and looks at its first byte. TLS is terminated with a leaf certificate
 * for the host of the CONNECT; plain HTTP, which some clients tunnel (Node's fetch, for example),
 * is read directly; anything else is closed.
 */
export function intercept(interception: Interception): void {
  const { socket, confirm, handshakeMs, onReady, onFailed } = interception;
  socket.setTimeout(0);
  confirm();
  let failure: GatewayError | undefined;
  let isSecuring = false;
  const fail = (error: GatewayError) => {
    failure ??= error;
    socket.destroy();
  };
  const timer = setTimeout(() => fail(isSecuring ? tooSlow() : neither()), handshakeMs);
  const closed = () => {
    clearTimeout(timer);
    onFailed(failure ?? neither());
  };
  socket.once('close', closed);
  const ready = (intercepted: Intercepted) => {
    clearTimeout(timer);
    socket.off('close', closed);
    onReady(intercepted);
  };
  const onReadable = () => {
    const bytes: Buffer | null = socket.read();
    if (bytes === null) return;
    socket.off('readable', onReadable);
    socket.unshift(bytes);
    const first = bytes[0] ?? 0;
    isSecuring = first === tlsHandshake;
    if (isSecuring) secure(interception, { ready, fail });
    else if (first >= 0x41 && first <= 0x5a) ready({ scheme: 'http', socket });
    else socket.destroy();
  };
  socket.on('readable', onReadable).once('end', () => socket.end());
}

function neither(): GatewayError {
  return new GatewayError('proxy.protocol_refused', {
    message: 'Neither TLS nor HTTP came inside a CONNECT.',
  });
}

function tooSlow(): GatewayError {
  return new GatewayError('proxy.tls_failed', {
    message: 'The TLS handshake with the agent was not done in time.',
  });
}

interface Ends {
  readonly ready: (intercepted: Intercepted) => void;
  readonly fail: (error: GatewayError) => void;
}

function secure({ socket, authority, leaf }: Interception, { ready, fail }: Ends): void {
  let secured: TLSSocket;
  try {
    secured = new TLSSocket(socket, {
      isServer: true,
      secureContext: leaf().context,
      ALPNProtocols: ['http/1.1'],
    });
  } catch (thrown) {
    fail(toGatewayError(thrown));
    return;
  }
  const failed = (error: Error) => fail(handshakeFailure(error));
  const brokenOff = () => fail(handshakeFailure(new Error('it was broken off')));
  // Node reports a failure before the end of the handshake only with this event.
  secured.once('_tlsError', failed).once('error', failed).once('close', brokenOff);
  secured.once('secure', () => {
    const refusal = namesAuthority(secured.servername, authority) ? undefined : mismatch();
    secured.off('close', brokenOff);
    ready({ scheme: 'https', socket: secured, refusal });
    // From here on, the HTTP server handles errors of this socket.
    secured.off('error', failed);
  });
}

// Alerts by which a client rejects the signer (RFC 8446 section 6.2).
const distrust = /ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN)/;

function handshakeFailure(error: NodeJS.ErrnoException): GatewayError {
  const code = error.code ?? '';
  const why = distrust.test(code)
    ? 'the agent does not trust the sidecar’s authority; it needs ca.crt (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, …)'
    : (/^ERR_SSL_(.+)$/.exec(code)?.[1]?.toLowerCase().replaceAll('_', ' ') ?? 'it was broken off');
  return new GatewayError('proxy.tls_failed', {
    message: `The TLS handshake with the agent failed: ${why}.`,
    cause: error,
  });
}

/**
 * Whether the SNI matches the CONNECT. The SNI may be missing only if the CONNECT names an IP
 * address, because an SNI cannot contain an address (RFC 6066 section 3).
 */
function namesAuthority(servername: unknown, { host }: Authority): boolean {
  if (typeof servername !== 'string' || servername === '') return isAddress(host);
  return servername.toLowerCase() === host;
}

function mismatch(): GatewayError {
  return new GatewayError('proxy.host_mismatch', {
    message: 'TLS was asked for another host than CONNECT.',
  });
}
