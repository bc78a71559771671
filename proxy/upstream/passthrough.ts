import { Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createProxyServer } from 'http-proxy';
import { formatAuthority } from '../../shared/host.ts';
import { type Guard, literalRefusal } from './address-guard.ts';
import type { Outcome } from './forwarding.ts';
import type { Outgoing } from './outgoing.ts';

/** A connection whose agent asked to change protocols, taken off the HTTP parser. */
interface UpgradedConnection {
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  /** What the agent sent behind its request. */
  readonly head: Buffer;
}

export type TunnelUpgrade = (
  outgoing: Outgoing,
  connection: UpgradedConnection,
  signal: AbortSignal,
) => Promise<Outcome>;

/** What a WebSocket handshake needs beside the headers of any call (RFC 6455, section 4.1). */
const handshakeHeaders = [
  'connection',
  'upgrade',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
];

/**
 * Carries a WebSocket to its upstream through http-proxy: the handshake in the form that was
 * judged, to the address that was checked, the frames unread. Never rejects; resolves when
 * either side has closed.
 */
export function createTunnelUpgrade(guard: Guard): TunnelUpgrade {
  return (outgoing, { req, socket, head }, signal) => {
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const refusal = literalRefusal(guard, outgoing.host, outgoing.port);
    if (refusal !== undefined) {
      return Promise.resolve({ responseBytes: 0, failure: 'proxy.address_refused' });
    }
    const authority = formatAuthority(outgoing, outgoing.scheme === 'https' ? 443 : 80);
    let failure: Outcome['failure'];
    let status: number | undefined;
    const proxy = createProxyServer({
      target: `${outgoing.scheme}://${authority}`,
      agent: agentFor(outgoing, guard),
      secure: true,
      changeOrigin: true,
    });
    proxy.on('error', () => {
      failure ??= 'upstream.unreachable';
      socket.destroy();
    });
    let upstream: Socket | undefined;
    proxy.on('open', (opened) => {
      status = 101;
      upstream = opened;
      if (socket.destroyed) opened.destroy();
    });
    const breakOff = () => {
      if (socket.destroyed) return;
      failure ??= 'client_gone';
      upstream?.destroy();
      socket.destroy();
    };
    signal.addEventListener('abort', breakOff, { once: true });
    socket.once('close', () => {
      const { bytesWritten } = socket as Socket;
      // http-proxy only half-closes it, and an upstream may go on sending for ever.
      upstream?.destroySoon();
      resolve({ status, responseBytes: bytesWritten, failure });
    });
    if (signal.aborted) breakOff();
    else proxy.ws(asJudged(req, outgoing), socket as Socket, head);
    return promise;
  };
}

function agentFor({ scheme, port }: Outgoing, guard: Guard): HttpAgent | HttpsAgent {
  const lookup = guard.lookup(port);
  return scheme === 'https'
    ? new HttpsAgent({ lookup, rejectUnauthorized: true })
    : new HttpAgent({ lookup });
}

/** The request as http-proxy shall send it: path and headers of the judged call, and the handshake's. */
function asJudged(req: IncomingMessage, outgoing: Outgoing): IncomingMessage {
  const headers: IncomingMessage['headers'] = {};
  for (const name of handshakeHeaders) {
    const value = req.headers[name];
    if (value !== undefined) headers[name] = value;
  }
  for (let index = 0; index + 1 < outgoing.headers.length; index += 2) {
    headers[(outgoing.headers[index] ?? '').toLowerCase()] = outgoing.headers[index + 1];
  }
  req.url = outgoing.path;
  req.headers = headers;
  return req;
}
