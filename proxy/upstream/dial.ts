import { connect, type Socket } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { buildConnector } from 'undici';
import makeConnector from 'undici/lib/core/connect.js';
import type { Authority } from '../../shared/host.ts';
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
  const secureContext = upstreamContext(ca);
  const connectors = new Map<number, buildConnector.connector>();
  const connectorFor = (port: number) => {
    const held = connectors.get(port);
    if (held !== undefined) return held;
    const made = makeConnector({
      lookup: guard.lookup(port),
      timeout: connectTimeoutMs,
      allowH2: false,
      // Explicit, so that no environment variable can switch verification off.
      rejectUnauthorized: true,
      secureContext,
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
    return connectorFor(port)(options, callback);
  };
}

/** One context for all connections: parsing the authorities anew for each would cost milliseconds. */
function upstreamContext(ca: readonly string[] = []): SecureContext {
  const more = ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca] };
  return createSecureContext({ minVersion: 'TLSv1.2', ...more });
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
