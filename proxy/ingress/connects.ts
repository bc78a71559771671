import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Authority } from '../../shared/base/host.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import { carryTunnel, type Opening } from './carry-tunnel.ts';
import { connectTarget, readHead } from './head.ts';
import type { Intercepted } from './intercept.ts';
import { interceptOpening, isTunnelled } from './open-connection.ts';
import type { IngressContext } from './options.ts';
import type { Peer } from './peer.ts';
import { refuseSocket } from './refusal.ts';
import { ownPort } from './requests.ts';

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

  async function answered(peer: Peer | undefined, connect: Connect): Promise<void> {
    let isTunnel = false;
    try {
      const authority = judge(peer, connect);
      if (authority instanceof GatewayError) throw authority;
      isTunnel = isTunnelled(context, authority);
      const opening = openingOf(connect, authority);
      if (isTunnel) {
        const { socket } = connect;
        await carryTunnel(context, opening, (refusal) =>
          onIntercepted({ scheme: 'http', socket, refusal }, authority),
        );
      } else interceptOpening(context, opening, onIntercepted);
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
      // The socket cannot become a tunnel while a response is still being sent on it.
      if (peer?.current !== undefined) connect.socket.destroy();
      else if (peer?.inside !== undefined || peer?.redirected !== undefined)
        refuseSocket(connect.socket, notAProxy());
      else void answered(peer, connect);
    },
  };
}

function openingOf({ socket, head }: Connect, authority: Authority): Opening {
  const confirm = () => {
    socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
    // Bytes that the agent sent right after its CONNECT.
    if (head.length > 0) socket.unshift(head);
  };
  return { socket, authority, confirm, mayBeOpaque: false };
}

function notAProxy(): GatewayError {
  return new GatewayError('proxy.request_invalid', {
    message: 'CONNECT is accepted only on a direct connection to the proxy.',
  });
}
