import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { classifyFailure } from '../../shared/upstream/connection-failure.ts';
import { dialTcp } from '../../shared/upstream/dial.ts';
import type { IngressContext } from './options.ts';
import { join, type TunnelEnd } from './tunnel.ts';
import { admitHello, alertAndClose, TunnelRefusal } from './tunnel-hello.ts';

/** An agent's connection whose destination is known. */
export interface Opening {
  readonly socket: Socket;
  readonly authority: Authority;
  /** Reports to the agent that its connection is open; does nothing on a redirected connection. */
  readonly confirm: () => void;
  /** Whether a tunnel may contain protocols other than TLS and HTTP. */
  readonly mayBeOpaque: boolean;
}

/**
 * Joins the agent's socket to the target's without reading the bytes, after `onTunnel` has allowed
 * the tunnel and the TLS inside has named the target. Plain HTTP is passed to `onPlain`, which
 * reads it call by call.
 */
export async function carryTunnel(
  context: IngressContext,
  { socket, authority, confirm, mayBeOpaque }: Opening,
  onPlain: (refusal: GatewayError | undefined) => void,
): Promise<void> {
  const { limits, guard, onTunnel } = context;
  const stop = new AbortController();
  const { promise: ended, resolve } = Promise.withResolvers<TunnelEnd>();
  const bytes = () => socket.bytesRead + socket.bytesWritten;
  const held = { ...authority, ended, bytes, close: () => stop.abort() };
  let end: TunnelEnd = { sentBytes: 0, receivedBytes: 0, failure: 'It was refused.' };
  try {
    await onTunnel(held);
    const { connectMs: connectTimeoutMs } = limits;
    const upstream = await dialTcp({
      ...authority,
      guard,
      connectTimeoutMs,
      signal: stop.signal,
    });
    upstream.on('error', () => {});
    const breakOff = () => {
      socket.resetAndDestroy();
      upstream.resetAndDestroy();
    };
    stop.signal.addEventListener('abort', breakOff, { once: true });
    if (stop.signal.aborted || socket.destroyed) breakOff();
    else confirm();
    const { tunnelIdleMs } = limits;
    const handshakeMs = Math.min(limits.handshakeMs, tunnelIdleMs);
    const ends = { ...authority, agent: socket, upstream, handshakeMs, tunnelIdleMs, mayBeOpaque };
    end = await carry(ends, onPlain);
    stop.signal.removeEventListener('abort', breakOff);
  } catch (thrown) {
    const error = thrown instanceof GatewayError ? thrown : dialFailure(thrown);
    end = { ...end, failure: error.message };
    throw error;
  } finally {
    resolve(end);
  }
}

interface Carried extends Authority {
  readonly agent: Socket;
  readonly upstream: Socket;
  readonly handshakeMs: number;
  readonly tunnelIdleMs: number;
  readonly mayBeOpaque: boolean;
}

/** Runs after the confirmation, when no other response to it is possible. Never rejects. */
async function carry(
  ends: Carried,
  onPlain: (refusal: GatewayError | undefined) => void,
): Promise<TunnelEnd> {
  const { agent, upstream, tunnelIdleMs: idleMs } = ends;
  const nothing = { sentBytes: 0, receivedBytes: 0 };
  agent.setTimeout(0);
  try {
    const content = await admitHello(ends);
    if (content.kind === 'opaque') return await join({ agent, upstream, idleMs });
    if (content.kind === 'tls')
      return { ...(await join({ agent, upstream, idleMs })), sni: content.sni };
    upstream.destroy();
    const { refusal } = content;
    onPlain(refusal);
    const failure = refusal?.message ?? 'It carries plain HTTP, which is read call by call.';
    return { ...nothing, failure, refusal: refusal?.code };
  } catch (thrown) {
    upstream.resetAndDestroy();
    if (!(thrown instanceof TunnelRefusal)) {
      agent.resetAndDestroy();
      return { ...nothing, failure: (thrown as Error).message };
    }
    alertAndClose(agent, thrown);
    return { ...nothing, failure: thrown.message, refusal: thrown.code, sni: thrown.sni };
  }
}

function dialFailure(error: unknown): GatewayError {
  return new GatewayError(classifyFailure(error, false).failure, { cause: error });
}
