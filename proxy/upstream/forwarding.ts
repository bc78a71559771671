import type { ServerResponse } from 'node:http';
import type { Outgoing } from './outgoing.ts';

/** Why a filter let an answer go no further. */
export type CutCause = 'credential.reflected' | 'mcp.answer_refused' | 'mcp.transport_unsupported';

/** How a forwarded request ended. */
export interface Outcome {
  /** Upstream's status; undefined when it never answered. */
  readonly status?: number | undefined;
  readonly responseBytes: number;
  /** What the agent sent through a tunnel. */
  readonly requestBytes?: number | undefined;
  /** Undefined when the whole answer reached the agent. */
  readonly failure?:
    | 'upstream.unreachable'
    | 'upstream.timeout'
    | `upstream.certificate_${'expired' | 'not_yet_valid' | 'self_signed' | 'untrusted' | 'weak' | 'wrong_host'}`
    | 'upstream.tls_version'
    | 'upstream.tls_invalid'
    | 'upstream.reset'
    | 'proxy.address_refused'
    | 'upstream.upgrade_refused'
    | 'proxy.draining'
    | CutCause
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
  /** Why it cut, asked after it did. Default: `credential.reflected`. */
  cause?(): CutCause;
  /** The largest body that is buffered. Default 1 MiB. */
  readonly bytesMax?: number | undefined;
}

export interface ForwardOptions {
  readonly signal: AbortSignal;
  /** Aborted when the sidecar ends: streams that have no end of their own are ended then. */
  readonly ending?: AbortSignal | undefined;
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
