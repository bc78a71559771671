import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';

/** How a tunnel ended. */
export interface TunnelEnd {
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** Undefined if both sides closed normally. */
  readonly failure?: string | undefined;
  /** Set if the tunnel was refused because of its content. */
  readonly refusal?: ErrorCode | undefined;
  /** The server name in the ClientHello, as sent. */
  readonly sni?: string | undefined;
}

/** A connection whose bytes are forwarded unread. */
export interface Tunnel extends Authority {
  readonly ended: Promise<TunnelEnd>;
  /** Bytes in both directions so far. */
  bytes(): number;
  /** Closes the tunnel, whether or not it is open yet. */
  close(): void;
}

interface Ends {
  readonly agent: Socket;
  readonly upstream: Socket;
  readonly idleMs: number;
}

/** Forwards bytes in both directions, including half-closes, until both sides have closed. */
export function join({ agent, upstream, idleMs }: Ends): Promise<TunnelEnd> {
  const { promise, resolve } = Promise.withResolvers<TunnelEnd>();
  let failure: string | undefined;
  let open = 2;
  for (const [end, other] of [
    [agent, upstream],
    [upstream, agent],
  ] as const) {
    end.setTimeout(idleMs, () => {
      failure ??= 'The tunnel was silent for too long.';
      agent.resetAndDestroy();
      upstream.resetAndDestroy();
    });
    end.on('error', (error: Error) => {
      failure ??= error.message;
      // The other side must not mistake a broken stream for a complete one.
      other.resetAndDestroy();
    });
    const closed = () => {
      // The other side writes the bytes that it still has from this side, then closes, too.
      other.destroySoon();
      open--;
      if (open > 0) return;
      resolve({ sentBytes: upstream.bytesWritten, receivedBytes: upstream.bytesRead, failure });
    };
    // An agent may disconnect before its tunnel is open, and `close` is emitted only once.
    if (end.closed) closed();
    else end.once('close', closed).pipe(other);
  }
  return promise;
}
