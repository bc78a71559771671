import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { GatewayError } from '../../shared/errors.ts';
import { type Authority, isAddress } from '../../shared/host.ts';
import type { Log } from '../../shared/log.ts';
import type { Leaf } from '../tls/authority.ts';

interface Interception {
  readonly socket: Socket;
  /** What the agent sent right behind its CONNECT. */
  readonly head: Buffer;
  readonly authority: Authority;
  readonly leaf: Leaf;
  readonly handshakeMs: number;
  readonly log: Log;
  /** Called once TLS stands; with a refusal when the agent asked TLS for another host. */
  readonly onSecure: (secure: TLSSocket, refusal: GatewayError | undefined) => void;
}

/**
 * Accepts a CONNECT and ends the agent's TLS here, showing a leaf for the host that CONNECT named.
 * What is not TLS, or offers only other protocols than http/1.1, is closed by the handshake.
 */
export function intercept(interception: Interception): void {
  const { socket, head, authority, leaf, handshakeMs, log, onSecure } = interception;
  socket.setTimeout(0);
  socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
  if (head.length > 0) socket.unshift(head);
  const secure = new TLSSocket(socket, {
    isServer: true,
    secureContext: leaf.context,
    ALPNProtocols: ['http/1.1'],
  });
  const timer = setTimeout(() => secure.destroy(), handshakeMs);
  const onClose = () => {
    clearTimeout(timer);
    log.info({ host: authority.host, code: 'proxy.protocol_refused' }, 'TLS handshake failed');
  };
  const ignore = () => {};
  secure.on('error', ignore);
  secure.once('close', onClose);
  secure.once('secure', () => {
    clearTimeout(timer);
    secure.off('close', onClose);
    const named = secure.servername;
    onSecure(secure, namesAuthority(named, authority) ? undefined : mismatch());
    // The HTTP server listens for errors by now.
    secure.off('error', ignore);
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
