import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import { classifyFailure } from '../../shared/upstream/connection-failure.ts';
import { dialTcp } from '../../shared/upstream/dial.ts';
import { internalHost } from '../base/internal-host-name.ts';
import { connectTarget, readHead } from './head.ts';
import { type Intercepted, intercept } from './intercept.ts';
import type { IngressContext } from './options.ts';
import type { Peer } from './peer.ts';
import { refuseSocket } from './refusal.ts';
import { ownPort } from './requests.ts';
import { join, type TunnelEnd } from './tunnel.ts';
import { admitHello, alertAndClose, TunnelRefusal } from './tunnel-hello.ts';

interface Connects {
  accept(peer: Peer | undefined, connect: Connect): void;
}

interface Connect {
  readonly req: IncomingMessage;
  readonly socket: Socket;
  readonly head: Buffer;
}

/** Answers CONNECT: by interception, by a tunnel, or by a refusal. */
export function createConnects(
  context: IngressContext,
  proves: (authorization: string | undefined) => boolean,
  onIntercepted: (intercepted: Intercepted, authority: Authority) => void,
): Connects {
  const { limits, log, guard } = context;

  function judge(peer: Peer | undefined, { req }: Connect): Authority | GatewayError {
    if (peer?.refusal !== undefined) return peer.refusal;
    const { headerCountMax } = limits;
    const head = readHead(req, { headerCountMax, mayUpgrade: false });
    if (head instanceof GatewayError) return head;
    if (!proves(head.proxyAuthorization)) return new GatewayError('proxy.auth_required');
    const authority = connectTarget(req, head.host);
    if (authority instanceof GatewayError) return authority;
    return guard.isOwn(authority.host, authority.port) ? ownPort(authority) : authority;
  }

  function isTunnelled({ host, port }: Authority): boolean {
    return host !== internalHost && context.passthrough(host, port) === 'tunnel';
  }

  function read({ socket, head }: Connect, authority: Authority): void {
    const { host } = authority;
    const refusal = host === internalHost ? undefined : context.authority.refusal(host);
    if (refusal !== undefined) throw refusal;
    intercept({
      socket,
      head,
      authority,
      leaf: () => context.authority.leafFor(host),
      handshakeMs: limits.handshakeMs,
      onReady: (intercepted) => onIntercepted(intercepted, authority),
      onFailed: (error) => context.refused(error, host),
    });
  }

  async function answered(peer: Peer | undefined, connect: Connect): Promise<void> {
    let isTunnel = false;
    try {
      const authority = judge(peer, connect);
      if (authority instanceof GatewayError) throw authority;
      isTunnel = isTunnelled(authority);
      if (isTunnel) {
        const { socket } = connect;
        await tunnel(context, connect, authority, (refusal) =>
          onIntercepted({ scheme: 'http', socket, refusal }, authority),
        );
      } else read(connect, authority);
    } catch (thrown) {
      const error = toGatewayError(thrown);
      log[error.kind.level]({ err: thrown, code: error.code }, 'CONNECT refused');
      // `onTunnel` reports its own decision, and a later failure of a tunnel is not a decision.
      if (!isTunnel) context.refused(error);
      refuseSocket(connect.socket, error);
    }
  }

  return {
    accept(peer, connect) {
      connect.socket.on('error', () => {});
      // A response that is being sent and a tunnel cannot share the socket.
      if (peer?.current !== undefined) connect.socket.destroy();
      else if (peer?.inside !== undefined) refuseSocket(connect.socket, nested());
      else void answered(peer, connect);
    },
  };
}

/**
 * Joins the agent's socket to the target's without reading the bytes, once `onTunnel` allows the
 * tunnel and the TLS inside names the target. Plain HTTP is passed to `onPlain`, which reads it
 * call by call.
 */
async function tunnel(
  context: IngressContext,
  { socket, head }: Connect,
  authority: Authority,
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
    else socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
    if (head.length > 0) socket.unshift(head);
    const { tunnelIdleMs } = limits;
    const handshakeMs = Math.min(limits.handshakeMs, tunnelIdleMs);
    const ends = { ...authority, agent: socket, upstream, handshakeMs, tunnelIdleMs };
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
}

/** Runs after the 200 response, when no other HTTP response is possible. Never rejects. */
async function carry(
  ends: Carried,
  onPlain: (refusal: GatewayError | undefined) => void,
): Promise<TunnelEnd> {
  const { agent, upstream, tunnelIdleMs: idleMs } = ends;
  const nothing = { sentBytes: 0, receivedBytes: 0 };
  agent.setTimeout(0);
  try {
    const content = await admitHello(ends);
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

function nested(): GatewayError {
  return new GatewayError('proxy.request_invalid', { message: 'CONNECT within CONNECT.' });
}

function dialFailure(error: unknown): GatewayError {
  return new GatewayError(classifyFailure(error, false).failure, { cause: error });
}
