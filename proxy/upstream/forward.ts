import type { ServerResponse } from 'node:http';
import Agent from 'undici/lib/dispatcher/agent.js';
import { formatAuthority } from '../../shared/host.ts';
import type { Guard } from './address-guard.ts';
import { guardedConnector } from './dial.ts';
import { outboundHeaders, withHeader } from './headers.ts';
import type { Outgoing } from './outgoing.ts';
import { readyBody } from './request-body.ts';
import { ResponseRelay } from './response-relay.ts';

/** How a forwarded request ended. */
export interface Outcome {
  /** Upstream's status; undefined when it never answered. */
  readonly status?: number | undefined;
  readonly responseBytes: number;
  /** Undefined when the whole answer reached the agent. */
  readonly failure?:
    | 'upstream.unreachable'
    | 'upstream.timeout'
    | 'upstream.tls_invalid'
    | 'upstream.reset'
    | 'proxy.address_refused'
    | 'credential.reflected'
    | 'client_gone'
    | undefined;
  readonly detail?: string | undefined;
}

/** Looks at an answer as it passes. */
export interface ResponseFilter {
  /**
   * Called once with the head. `stream`: each chunk passes through `chunk`; `buffer`: the whole
   * body (up to `bytesMax`, beyond which the answer is cut) is handed to `whole` and replaced;
   * `cut`: nothing of the answer goes on.
   */
  head(
    status: number,
    headers: Readonly<Record<string, string | readonly string[]>>,
  ): 'pass' | 'stream' | 'buffer' | 'cut';
  /** Returns what may go on now, or `cut` to break off. `last` when no more will come. */
  chunk?(bytes: Buffer, last: boolean): Buffer | 'cut';
  whole?(bytes: Buffer): Buffer | 'cut';
  /** The largest body that is buffered. Default 1 MiB. */
  readonly bytesMax?: number | undefined;
}

export interface ForwardOptions {
  readonly signal: AbortSignal;
  readonly filter?: ResponseFilter | undefined;
  /** Added to the answer's header, for example `Sallyport-Decision`. */
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
}

/**
 * Sends a request to its upstream and streams the answer to the agent with backpressure.
 * Never rejects. If the upstream failed before an answer began, nothing has been written to
 * `res` and the caller answers; after that, `res` has been destroyed.
 */
export type Forward = (
  outgoing: Outgoing,
  res: ServerResponse,
  options: ForwardOptions,
) => Promise<Outcome>;

export interface ForwardTimeouts {
  readonly connectMs: number;
  /** From the request's end to the answer's head. */
  readonly headersMs: number;
  /** Silence within an answer; event streams may be silent for as long as they like. */
  readonly bodyIdleMs: number;
}

export const defaultTimeouts: ForwardTimeouts = {
  connectMs: 10_000,
  headersMs: 60_000,
  bodyIdleMs: 120_000,
};

interface ForwardSettings {
  readonly guard: Guard;
  readonly timeouts?: Partial<ForwardTimeouts> | undefined;
  /** PEM certificates of authorities to trust besides those that Node trusts. */
  readonly ca?: readonly string[] | undefined;
}

const responseHeaderBytesMax = 64 * 1024;
// Below what servers commonly keep a connection for, so that none is used as it closes.
const keepAliveMs = 4_000;

/** Opens the way out: connections are pooled per origin, guarded, and never follow a redirect. */
export function createForward({
  guard,
  timeouts,
  ca,
}: ForwardSettings): Forward & { close(): Promise<void> } {
  const limits = { ...defaultTimeouts, ...timeouts };
  const agent = new Agent({
    connect: guardedConnector({ guard, connectTimeoutMs: limits.connectMs, ca }),
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: responseHeaderBytesMax,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: 60_000,
    headersTimeout: limits.headersMs,
    // Silence is judged by the relay, which knows who is being waited for.
    bodyTimeout: 0,
  });

  const forward: Forward = (outgoing, res, options) => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const relay = new ResponseRelay({ res, options, bodyIdleMs: limits.bodyIdleMs, resolve });
    relay.watch();
    readyBody(outgoing.body, (body, lengthBytes) => {
      if (body === 'gone') {
        relay.clientGone('The agent went away while sending.');
        return;
      }
      if (!relay.wanted) return;
      const headers = requestHeaders(outgoing, options.filter !== undefined, lengthBytes);
      const origin = originOf(outgoing);
      agent.dispatch(
        { origin, path: outgoing.path, method: outgoing.method, headers, body },
        relay,
      );
    });
    return promise;
  };
  return Object.assign(forward, { close: () => agent.destroy() });
}

function requestHeaders(
  { headers }: Outgoing,
  filtered: boolean,
  lengthBytes: number | undefined,
): string[] {
  const kept = outboundHeaders(headers);
  // A filter reads the body, so it must come as it is.
  const readable = filtered ? withHeader(kept, 'accept-encoding', 'identity') : kept;
  if (lengthBytes !== undefined) readable.push('content-length', String(lengthBytes));
  return readable;
}

function originOf({ scheme, host, port }: Outgoing): string {
  const defaultPort = scheme === 'https' ? 443 : 80;
  return `${scheme}://${formatAuthority({ host, port }, defaultPort)}`;
}
