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
  /** PEM certificates of additional trusted authorities. */
  readonly ca?: readonly string[] | undefined;
}

/**
 * The undici connector: address guard, HTTP/1.1, and certificate verification that cannot be
 * disabled.
 */
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

/**
 * Returns the TLS settings for all upstreams; `ca` lists trusted authorities in addition to Node's.
 */
export function upstreamSecurity(ca: readonly string[] = []): UpstreamSecurity {
  const more = ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca] };
  return {
    // Set explicitly, so that no environment variable can disable verification.
    rejectUnauthorized: true,
    // Shared by all connections, because parsing the authorities again costs milliseconds.
    secureContext: createSecureContext({ minVersion: 'TLSv1.2', ...more }),
    checkServerIdentity: checkAlternativeNames,
  };
}

/**
 * Ignores the common name. If a certificate has no alternative names, Node would fall back to the
 * common name, which RFC 9525 section 2 forbids.
 */
function checkAlternativeNames(host: string, cert: PeerCertificate): Error | undefined {
  const named = cert.subjectaltname === undefined ? { ...cert, subject: { CN: '' } } : cert;
  return checkServerIdentity(host, named as PeerCertificate);
}

const sessionsMax = 256;

/**
 * Keeps the last TLS session of each origin. Undici holds sessions weakly, so they can be
 * garbage-collected before the next connection resumes them.
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

/** Opens a guarded TCP connection, for tunnels. Rejects with the cause of the failure. */
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
    const error = new Error(
      timedOut ? 'The connection timed out.' : 'The connection was cancelled.',
    );
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
