import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';

/** How a tunnel ended. */
export interface TunnelEnd {
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** Undefined when both sides closed in order. */
  readonly failure?: string | undefined;
  /** Set when the tunnel was refused for what came inside it. */
  readonly refusal?: ErrorCode | undefined;
  /** The server name that TLS asked for, as sent. */
  readonly sni?: string | undefined;
}

/** A connection that passes unread. */
export interface Tunnel extends Authority {
  readonly ended: Promise<TunnelEnd>;
  /** Bytes in both directions so far. */
  bytes(): number;
  /** Breaks it off, before or after it is open. */
  close(): void;
}

interface Ends {
  readonly agent: Socket;
  readonly upstream: Socket;
  readonly idleMs: number;
}

/** Carries bytes both ways, half-closing as the ends do, until both are done. */
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
      // The other end must not take a broken stream for a finished one.
      other.resetAndDestroy();
    });
    const closed = () => {
      // The other end writes the bytes that this end sent, then closes too.
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
