import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authority } from '../../shared/base/host.ts';
import type { GatewayError } from '../../shared/errors/gateway-error.ts';

/** The destination that a redirected connection had before the network rules changed it. */
export interface Destination {
  /** In the form of `normaliseHost`. */
  readonly address: string;
  readonly port: number;
  /**
   * The names that the agent may have meant: the name for which the sidecar's DNS server returned
   * this address, and that name without a search domain. Empty if no name has this address.
   */
  readonly names: readonly string[];
}

/** One connection on which requests arrive: plain, or inside a CONNECT. */
export interface Peer {
  /** The destination of the CONNECT and its inner scheme; undefined on a plain connection. */
  readonly inside?: (Authority & { readonly scheme: 'http' | 'https' }) | undefined;
  /** The destination of a redirected connection, whose requests name their host. */
  readonly redirected?: Destination | undefined;
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
