import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { HeldStream } from './held-stream.ts';

/** One HTTP request that an agent sent through the proxy, with where it wants to go. */
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
  /** The connection of a request to change protocols; `res` still answers what is refused. */
  readonly upgrade?: { readonly socket: Duplex; readonly head: Buffer } | undefined;
  /** The event stream that was opened while the call was held: its response belongs in there. */
  held?: HeldStream | undefined;
  /** Aborted when the agent disconnects, or when the sidecar ends the call. */
  readonly abort: AbortController;
}
