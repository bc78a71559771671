import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { HeldStream } from './held-stream.ts';

/** One HTTP request that an agent sent through the proxy, with its destination. */
export interface Exchange {
  readonly scheme: 'http' | 'https';
  /** Lower-case A-label without trailing dot, or an IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  /** Upper case. */
  readonly method: string;
  /** Origin form, exactly as sent: path and query. */
  readonly target: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** The connection of a request to change protocols. A refusal is still written to `res`. */
  readonly upgrade?: { readonly socket: Duplex; readonly head: Buffer } | undefined;
  /**
   * The event stream that was opened while the call was held; the call's response is sent on it.
   */
  held?: HeldStream | undefined;
  /** Aborted when the agent disconnects, or when the sidecar ends the call. */
  readonly abort: AbortController;
}
