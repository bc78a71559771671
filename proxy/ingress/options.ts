import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Log } from '../../shared/base/log.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import type { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { Exchange } from '../call/exchange.ts';
import type { Authority as CertificateAuthority } from '../tls/authority.ts';
import type { Target } from './head.ts';
import type { IngressLimits } from './limits.ts';
import type { Tunnel } from './tunnel.ts';

/** A request to change protocols; the HTTP parser has released its socket. */
export interface Upgrade {
  readonly target: Target;
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** A refusal by the ingress itself, for metrics and the record. */
interface IngressRefusal {
  readonly code: ErrorCode;
  readonly host?: string | undefined;
}

export interface IngressOptions {
  readonly authority: CertificateAuthority;
  /**
   * Answers an exchange; resolves when the exchange is finished. May throw a GatewayError to
   * refuse.
   */
  readonly handle: (exchange: Exchange) => Promise<void>;
  /**
   * Whether a CONNECT is intercepted or tunnelled unread. The sidecar's own host is always
   * intercepted.
   */
  readonly passthrough: (host: string, port: number) => 'intercept' | 'tunnel';
  /** Called before a tunnel is dialled; a GatewayError thrown here refuses it. */
  readonly onTunnel: (tunnel: Tunnel) => Promise<void> | void;
  readonly guard: Guard;
  /** The token that callers must present; required unless the proxy listens on loopback. */
  readonly token?: string | undefined;
  readonly limits?: Partial<IngressLimits> | undefined;
  /**
   * Handles an upgrade; may throw a GatewayError to refuse it. If undefined, every upgrade is
   * refused.
   */
  readonly onUpgrade?: ((upgrade: Upgrade) => Promise<void>) | undefined;
  readonly onRefusal?: ((refusal: IngressRefusal) => void) | undefined;
  readonly log: Log;
}

/** The context that the parts of the ingress share. */
export interface IngressContext extends Omit<IngressOptions, 'limits'> {
  readonly limits: IngressLimits;
  readonly refused: (error: GatewayError, host?: string) => void;
  /** True while the ingress is closing, when connections are not kept alive. */
  readonly draining: () => boolean;
}
