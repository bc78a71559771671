import type { ServerResponse } from 'node:http';
import type { ConnectionFailure } from '../../shared/upstream/connection-failure.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { CutCause, ResponseFilter } from '../../shared/upstream/response-filter.ts';

/** How a forwarded request ended. */
export interface Outcome {
  /** The upstream's status; undefined if there was no response. */
  readonly status?: number | undefined;
  readonly responseBytes: number;
  /** Bytes that the agent sent through a tunnel. */
  readonly requestBytes?: number | undefined;
  /** Undefined if the agent received the whole response. */
  readonly failure?:
    | ConnectionFailure
    | 'upstream.upgrade_refused'
    | 'proxy.draining'
    | CutCause
    | 'client_gone'
    | undefined;
  readonly detail?: string | undefined;
}

/** The record's text for a response that a filter cut. */
export const cutDetails: Readonly<Record<CutCause, string>> = {
  'credential.reflected': 'The upstream sent the credential back.',
  'mcp.answer_refused': 'The MCP server’s answer cannot be read in one way only.',
  'mcp.transport_unsupported': 'The MCP server speaks the HTTP+SSE transport of 2024-11-05.',
};

export interface ForwardOptions {
  readonly signal: AbortSignal;
  /** Aborted at shutdown, to end streams that have no end of their own. */
  readonly ending?: AbortSignal | undefined;
  /** Called when the upstream begins to respond. */
  readonly onHead?: (() => void) | undefined;
  readonly filter?: ResponseFilter | undefined;
  /** Added to the response headers, for example `Sallyport-Decision`. */
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
}

/**
 * Sends a request to its upstream and streams the response to the agent with backpressure. Never
 * rejects. If the upstream failed before a response began, nothing was written to `res` and the
 * caller must respond; after a later failure, `res` is destroyed.
 */
export type Forward = (
  outgoing: Outgoing,
  res: ServerResponse,
  options: ForwardOptions,
) => Promise<Outcome>;
