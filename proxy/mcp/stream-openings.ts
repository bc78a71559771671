import type { Exchange } from '../call/exchange.ts';

// Maximum delay of a session's requests if the server does not respond to the GET of the stream.
const waitMsMax = 250;

/**
 * The event streams of MCP sessions that agents are opening. A server's question on such a stream
 * may be lost if a call overtakes the GET that opens the stream, so requests of the session wait
 * briefly until the stream is open.
 */
export class StreamOpenings {
  readonly #bySession = new Map<string, Promise<unknown>>();
  readonly #over = new WeakMap<Exchange, () => void>();

  /** Called when a request for a stream arrives. */
  begin(exchange: Exchange): void {
    const session = sessionOf(exchange);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#over.set(exchange, resolve);
    const all = Promise.all([promise, this.#bySession.get(session)]).then(() => {
      if (this.#bySession.get(session) === all) this.#bySession.delete(session);
    });
    this.#bySession.set(session, all);
  }

  /** Called when the request is sent to the server, which then has `waitMsMax` to respond. */
  leaves(exchange: Exchange): void {
    const over = this.#over.get(exchange);
    if (over !== undefined) setTimeout(over, waitMsMax).unref();
  }

  /** Called when the server begins to respond, or the request has failed. */
  over(exchange: Exchange): void {
    this.#over.get(exchange)?.();
  }

  /** Resolves when the session's streams are open; undefined if none is being opened. */
  before(exchange: Exchange): Promise<unknown> | undefined {
    if (this.#bySession.size === 0 || this.#over.has(exchange)) return undefined;
    return this.#bySession.get(sessionOf(exchange));
  }
}

function sessionOf({ host, port, req }: Exchange): string {
  return `${host}:${port} ${req.headers['mcp-session-id'] ?? ''}`;
}
