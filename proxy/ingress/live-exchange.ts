import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Exchange } from '../call/exchange.ts';
import type { HeldStream } from '../call/held-stream.ts';
import type { Target } from './head.ts';
import type { Upgrade } from './options.ts';

const agentGone = new Error('The agent went away.');

/** An exchange that creates its abort controller on first use. */
export class LiveExchange implements Exchange {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  readonly method: string;
  readonly target: string;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  held: HeldStream | undefined;
  #abort: AbortController | undefined;
  #broken = false;

  constructor(target: Target, req: IncomingMessage, res: ServerResponse) {
    this.scheme = target.scheme;
    this.host = target.host;
    this.port = target.port;
    this.method = req.method ?? '';
    this.target = target.path;
    this.req = req;
    this.res = res;
  }

  get abort(): AbortController {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#broken) this.#abort.abort(agentGone);
    }
    return this.#abort;
  }

  /** Called when the response closes. If the response is incomplete, the agent has disconnected. */
  closed(): void {
    if (this.res.writableFinished) return;
    this.#broken = true;
    this.#abort?.abort(agentGone);
  }
}

const lingerMs = 1_000;

/**
 * Reads and discards bytes for a moment, so that the response reaches the agent, then closes the
 * socket.
 */
function linger(socket: Upgrade['socket']): void {
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}

/**
 * The exchange of a request to change protocols. The HTTP server has released the socket, so a
 * refusal needs a new response object; an allowed connection is tunnelled.
 */
export function upgradeExchange({ target, req, socket, head }: Upgrade): Exchange {
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket as Socket);
  res.once('finish', () => {
    res.detachSocket(socket as Socket);
    socket.end();
    linger(socket);
  });
  const abort = new AbortController();
  socket.once('close', () => abort.abort());
  const { scheme, host, port, path } = target;
  const method = req.method ?? 'GET';
  return { scheme, host, port, method, target: path, req, res, upgrade: { socket, head }, abort };
}
