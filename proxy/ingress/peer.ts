import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authority } from '../../shared/base/host.ts';
import type { GatewayError } from '../../shared/errors/gateway-error.ts';

/** One connection on which requests arrive: plain, or inside a CONNECT. */
export interface Peer {
  /** The destination of the CONNECT and its inner scheme; undefined on a plain connection. */
  readonly inside?: (Authority & { readonly scheme: 'http' | 'https' }) | undefined;
  /**
   * Set if every request here is refused: the CONNECT was invalid, or there are too many
   * connections.
   */
  readonly refusal?: GatewayError | undefined;
  /** The `Proxy-Authorization` value that was proven on this connection. */
  provenAuthorization?: string | undefined;
  /** The exchange that is being answered; further ones are in `waiting`. */
  current?: Waiting | undefined;
  readonly waiting: Waiting[];
}

export interface Waiting {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}
