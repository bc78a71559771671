import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { GatewayError } from '../../shared/errors.ts';
import { type Authority, isAddress } from '../../shared/host.ts';
import type { Log } from '../../shared/log.ts';
import type { Leaf } from '../tls/authority.ts';

/** What turned out to be inside a CONNECT. */
export interface Intercepted {
  readonly scheme: 'http' | 'https';
  readonly socket: Socket;
  /** Set when the agent asked TLS for another host than CONNECT. */
  readonly refusal?: GatewayError | undefined;
}

interface Interception {
  readonly socket: Socket;
  /** What the agent sent right behind its CONNECT. */
  readonly head: Buffer;
  readonly authority: Authority;
  readonly leaf: () => Leaf;
  readonly handshakeMs: number;
  readonly log: Log;
  readonly onReady: (intercepted: Intercepted) => void;
}

// RFC 8446 section 5.1: the record type of a ClientHello.
const tlsHandshake = 0x16;

/**
 * Accepts a CONNECT and looks at the first byte inside. TLS ends here, under a leaf for the host
 * that CONNECT named; plain HTTP (some clients tunnel that too, Node's fetch among them) is read
 * as it is; anything else is closed.
 */
export function intercept(interception: Interception): void {
  const { socket, head, authority, handshakeMs, log, onReady } = interception;
  socket.setTimeout(0);
  socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
  if (head.length > 0) socket.unshift(head);
  const timer = setTimeout(() => socket.destroy(), handshakeMs);
  const failed = () => {
    clearTimeout(timer);
    log.info({ host: authority.host, code: 'proxy.protocol_refused' }, 'Neither TLS nor HTTP');
  };
  socket.once('close', failed);
  const ready = (intercepted: Intercepted) => {
    clearTimeout(timer);
    socket.off('close', failed);
    onReady(intercepted);
  };
  const onReadable = () => {
    const bytes: Buffer | null = socket.read();
    if (bytes === null) return;
    socket.off('readable', onReadable);
    socket.unshift(bytes);
    const first = bytes[0] ?? 0;
    if (first === tlsHandshake) secure(interception, ready);
    else if (first >= 0x41 && first <= 0x5a) ready({ scheme: 'http', socket });
    else socket.destroy();
  };
  socket.on('readable', onReadable).once('end', () => socket.end());
}

function secure(
  { socket, authority, leaf }: Interception,
  ready: (intercepted: Intercepted) => void,
): void {
  const secured = new TLSSocket(socket, {
    isServer: true,
    secureContext: leaf().context,
    ALPNProtocols: ['http/1.1'],
  });
  const ignore = () => {};
  secured.on('error', ignore);
  secured.once('secure', () => {
    const refusal = namesAuthority(secured.servername, authority) ? undefined : mismatch();
    ready({ scheme: 'https', socket: secured, refusal });
    // The HTTP server listens for errors by now.
    secured.off('error', ignore);
  });
}

/** An IP address cannot be named by SNI (RFC 6066 section 3); a name must be. */
function namesAuthority(servername: unknown, { host }: Authority): boolean {
  if (typeof servername !== 'string' || servername === '') return isAddress(host);
  return servername.toLowerCase() === host;
}

function mismatch(): GatewayError {
  return new GatewayError('proxy.host_mismatch', {
    message: 'TLS was asked for another host than CONNECT.',
  });
}
