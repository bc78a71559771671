import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import {
  endsParsing,
  innerTarget,
  plainTarget,
  type RequestHead,
  readHead,
  redirectedTarget,
  type Target,
} from './head.ts';
import { LiveExchange } from './live-exchange.ts';
import type { IngressContext, Upgrade } from './options.ts';
import type { Peer, Waiting } from './peer.ts';
import { refuseRequest, refuseSocket } from './refusal.ts';

interface Requests {
  /** Accepts a parsed request. Requests on one connection are answered one after the other. */
  accept(peer: Peer, waiting: Waiting): void;
  upgrade(peer: Peer, req: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Refuses a request whose body has stopped arriving. */
  stalled(peer: Peer): void;
}

const ignore = () => {};

/** Passes requests from connections to `handle`. Calls `onIdle` when a connection becomes idle. */
export function createRequests(
  context: IngressContext,
  proves: (authorization: string | undefined) => boolean,
  onIdle: (socket: Socket) => void,
): Requests {
  const { limits } = context;

  function judge(peer: Peer, req: IncomingMessage, mayUpgrade: boolean): Target | GatewayError {
    if (peer.refusal !== undefined) return peer.refusal;
    const head = readHead(req, { headerCountMax: limits.headerCountMax, mayUpgrade });
    if (head instanceof GatewayError) return head;
    if (peer.inside !== undefined) return innerTarget(req, head.host, peer.inside);
    const target = outerTarget(peer, req, head);
    if (target instanceof GatewayError) return target;
    return context.guard.isOwn(target.host, target.port) ? ownPort(target) : target;
  }

  /** The token is for the proxy's own port; redirected connections cannot present it. */
  function outerTarget(peer: Peer, req: IncomingMessage, head: RequestHead): Target | GatewayError {
    if (peer.redirected !== undefined)
      return redirectedTarget(req, head.host, peer.redirected.port);
    if (isProven(peer, head.proxyAuthorization, proves)) return plainTarget(req, head.host);
    return new GatewayError('proxy.auth_required');
  }

  function answer(peer: Peer, { req, res }: Waiting): void {
    if (context.draining() || endsParsing(req)) res.shouldKeepAlive = false;
    const target = judge(peer, req, false);
    if (target instanceof GatewayError) {
      context.refused(target);
      refuseRequest(res, target);
      return;
    }
    const exchange = new LiveExchange(target, req, res);
    res.once('close', () => exchange.closed());
    void handled(context, exchange);
  }

  function begin(peer: Peer, waiting: Waiting): void {
    peer.current = waiting;
    waiting.res.once('close', () => {
      peer.current = undefined;
      const next = peer.waiting.shift();
      if (next === undefined) onIdle(waiting.req.socket);
      else if (next.req.socket.destroyed) peer.waiting.length = 0;
      else begin(peer, next);
    });
    answer(peer, waiting);
  }

  return {
    accept(peer, waiting) {
      waiting.res.on('error', ignore);
      if (peer.current === undefined) begin(peer, waiting);
      else if (peer.waiting.length < limits.pipelinedMax) peer.waiting.push(waiting);
      else waiting.req.socket.destroy();
    },
    upgrade(peer, req, socket, head) {
      socket.on('error', ignore);
      // The socket cannot change protocol while a response is still being sent on it.
      if (peer.current !== undefined) socket.destroy();
      else void upgraded(context, () => judge(peer, req, true), { req, socket, head });
    },
    stalled: (peer) => refuseStalled(context, peer),
  };
}

/**
 * Checks a connection's `Proxy-Authorization`. A value that was proven before is not checked again.
 */
function isProven(
  peer: Peer,
  authorization: string | undefined,
  proves: (authorization: string | undefined) => boolean,
): boolean {
  if (peer.provenAuthorization !== undefined && peer.provenAuthorization === authorization) {
    return true;
  }
  if (!proves(authorization)) return false;
  peer.provenAuthorization = authorization;
  return true;
}

async function handled({ handle, log }: IngressContext, exchange: LiveExchange): Promise<void> {
  const { res } = exchange;
  try {
    await handle(exchange);
    if (res.writableEnded || res.destroyed) return;
    throw new Error('The exchange was left without an answer.');
  } catch (thrown) {
    const error = toGatewayError(thrown);
    log[error.kind.level]({ err: thrown, code: error.code }, 'exchange failed');
    refuseRequest(res, error);
  }
}

async function upgraded(
  { onUpgrade, log, refused }: IngressContext,
  judged: () => Target | GatewayError,
  upgrade: Omit<Upgrade, 'target'>,
): Promise<void> {
  try {
    const target = judged();
    if (target instanceof GatewayError) throw target;
    if (onUpgrade === undefined) throw new GatewayError('proxy.upgrade_refused');
    await onUpgrade({ target, ...upgrade });
  } catch (thrown) {
    const error = toGatewayError(thrown);
    log[error.kind.level]({ err: thrown, code: error.code }, 'upgrade refused');
    refused(error);
    refuseSocket(upgrade.socket, error);
  }
}

function refuseStalled(context: IngressContext, { current }: Peer): void {
  if (current === undefined || current.req.complete || current.req.readableLength > 0) return;
  const error = new GatewayError('proxy.request_timeout');
  context.refused(error);
  refuseRequest(current.res, error);
}

/** The refusal of a target that is one of Sallyport's own ports. */
export function ownPort({ host, port }: { host: string; port: number }): GatewayError {
  return new GatewayError('proxy.address_refused', {
    message: `${host}:${port} is Sallyport itself; it is not reached through the proxy: go there without one.`,
  });
}
