import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Exchange } from '../call/exchange.ts';
import type { HeldStream } from '../call/held-stream.ts';
import type { Target } from './head.ts';

const agentGone = new Error('The agent went away.');

/** An exchange whose abort controller costs nothing until somebody asks for it. */
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

  /** The connection is done with this exchange; unless its answer is out, the agent has left. */
  closed(): void {
    if (this.res.writableFinished) return;
    this.#broken = true;
    this.#abort?.abort(agentGone);
  }
}
