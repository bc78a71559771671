import { connect, type Socket } from 'node:net';
import {
  checkServerIdentity,
  createSecureContext,
  getCACertificates,
  type PeerCertificate,
  type SecureContext,
  TLSSocket,
} from 'node:tls';
import type { buildConnector } from 'undici';
import makeConnector from 'undici/lib/core/connect.js';
import type { Authority } from '../base/host.ts';
import { type Guard, literalRefusal } from './address-guard.ts';

interface DialOptions {
  readonly guard: Guard;
  readonly connectTimeoutMs: number;
  /** PEM certificates of authorities to trust besides those that Node trusts. */
  readonly ca?: readonly string[] | undefined;
}

/** How undici opens connections: guarded, HTTP/1.1, the upstream's certificate always verified. */
export function guardedConnector({
  guard,
  connectTimeoutMs,
  ca,
}: DialOptions): buildConnector.connector {
  const security = upstreamSecurity(ca);
  const keepSession = sessionKeeper();
  const connectors = new Map<number, buildConnector.connector>();
  const connectorFor = (port: number) => {
    const held = connectors.get(port);
    if (held !== undefined) return held;
    const made = makeConnector({
      lookup: guard.lookup(port),
      timeout: connectTimeoutMs,
      allowH2: false,
      ...security,
    });
    connectors.set(port, made);
    return made;
  };
  return (options, callback) => {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const refusal = literalRefusal(guard, options.hostname, port);
    if (refusal !== undefined) {
      callback(refusal, null);
      return;
    }
    return connectorFor(port)(options, (...result) => {
      const [, socket] = result;
      if (socket !== null) keepSession(`${options.hostname}:${port}`, socket);
      callback(...result);
    });
  };
}

export interface UpstreamSecurity {
  readonly rejectUnauthorized: true;
  readonly secureContext: SecureContext;
  readonly checkServerIdentity: typeof checkServerIdentity;
}

/** How the certificate of any upstream is judged; `ca`: authorities to trust besides Node's. */
export function upstreamSecurity(ca: readonly string[] = []): UpstreamSecurity {
  const more = ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca] };
  return {
    // Explicit, so that no environment variable can switch verification off.
    rejectUnauthorized: true,
    // One for all connections: parsing the authorities anew for each would cost milliseconds.
    secureContext: createSecureContext({ minVersion: 'TLSv1.2', ...more }),
    checkServerIdentity: checkAlternativeNames,
  };
}

/** Node also takes the common name where a certificate has no alternative ones; RFC 9525 section 2 does not. */
function checkAlternativeNames(host: string, cert: PeerCertificate): Error | undefined {
  const named = cert.subjectaltname === undefined ? { ...cert, subject: { CN: '' } } : cert;
  return checkServerIdentity(host, named as PeerCertificate);
}

const sessionsMax = 256;

/**
 * Holds the last TLS session of each origin: undici remembers them weakly, and without this they
 * are gone before the next connection could resume them.
 */
function sessionKeeper(): (origin: string, socket: Socket) => void {
  const sessions = new Map<string, Buffer>();
  return (origin, socket) => {
    if (!(socket instanceof TLSSocket)) return;
    const keep = (session: Buffer) => {
      sessions.delete(origin);
      sessions.set(origin, session);
      if (sessions.size > sessionsMax) sessions.delete(sessions.keys().next().value ?? origin);
    };
    socket.on('session', keep);
  };
}

interface TcpOptions extends Authority {
  readonly guard: Guard;
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
}

/** Opens a guarded TCP connection, for tunnels. Rejects with what went wrong. */
export function dialTcp({
  host,
  port,
  guard,
  connectTimeoutMs,
  signal,
}: TcpOptions): Promise<Socket> {
  const refusal = literalRefusal(guard, host, port);
  if (refusal !== undefined) return Promise.reject(refusal);
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const lookup = guard.lookup(port);
  const socket = connect({ host, port, lookup, allowHalfOpen: true, noDelay: true });
  const stop = AbortSignal.any([signal, AbortSignal.timeout(connectTimeoutMs)]);
  const onStop = () => {
    const timedOut = !signal.aborted;
    const error = new Error(timedOut ? 'The connection took too long.' : 'No longer wanted.');
    socket.destroy(Object.assign(error, { code: timedOut ? 'ETIMEDOUT' : 'ABORT_ERR' }));
  };
  stop.addEventListener('abort', onStop, { once: true });
  socket.once('connect', () => {
    stop.removeEventListener('abort', onStop);
    socket.off('error', reject);
    resolve(socket);
  });
  socket.once('error', reject);
  if (stop.aborted) onStop();
  return promise;
}
