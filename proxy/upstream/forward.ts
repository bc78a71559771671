import Agent from 'undici/lib/dispatcher/agent.js';
import { formatAuthority } from '../../shared/base/host.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import { guardedConnector } from '../../shared/upstream/dial.ts';
import { outboundHeaders, withHeader } from '../../shared/upstream/headers.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Forward, Outcome } from './forwarding.ts';
import { readyBody } from './request-body.ts';
import { ResponseRelay } from './response-relay.ts';

export interface ForwardTimeouts {
  readonly connectMs: number;
  /** Time from the end of the request to the head of the response. */
  readonly headersMs: number;
  /** Longest pause within a response; event streams may pause for any time. */
  readonly bodyIdleMs: number;
}

const defaultTimeouts: ForwardTimeouts = {
  connectMs: 10_000,
  headersMs: 60_000,
  bodyIdleMs: 120_000,
};

interface ForwardSettings {
  readonly guard: Guard;
  readonly timeouts?: Partial<ForwardTimeouts> | undefined;
  /** PEM certificates of authorities to trust in addition to those that Node trusts. */
  readonly ca?: readonly string[] | undefined;
}

const responseHeaderBytesMax = 64 * 1024;
// Shorter than the usual keep-alive times of servers, so that no request is sent on a connection
// that the server closes.
const keepAliveMs = 4_000;

/** Creates the forwarder: connections are pooled per origin and guarded; redirects are not followed. */
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
    // The relay limits pauses, because it knows which side is being waited for.
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
  // The filter must read the body, so the upstream must not compress it.
  const readable = filtered ? withHeader(kept, 'accept-encoding', 'identity') : kept;
  if (lengthBytes !== undefined) readable.push('content-length', String(lengthBytes));
  return readable;
}

function originOf({ scheme, host, port }: Outgoing): string {
  const defaultPort = scheme === 'https' ? 443 : 80;
  return `${scheme}://${formatAuthority({ host, port }, defaultPort)}`;
}
