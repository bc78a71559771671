import type { Exchange } from '../call/exchange.ts';

// A server that sends nothing at first does not delay its session for longer.
const waitMsMax = 250;

/**
 * The event streams of MCP sessions that agents are opening. A server asks its client on such a
 * stream, and the question may be lost if a call overtakes the GET that opens the stream. So the
 * requests of a session wait briefly until its streams are open.
 */
export class StreamOpenings {
  readonly #bySession = new Map<string, Promise<unknown>>();
  readonly #over = new WeakMap<Exchange, () => void>();

  /** A request for a stream has come. */
  begin(exchange: Exchange): void {
    const session = sessionOf(exchange);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#over.set(exchange, resolve);
    const all = Promise.all([promise, this.#bySession.get(session)]).then(() => {
      if (this.#bySession.get(session) === all) this.#bySession.delete(session);
    });
    this.#bySession.set(session, all);
  }

  /** The request goes to the server, which has a moment to answer it. */
  leaves(exchange: Exchange): void {
    const over = this.#over.get(exchange);
    if (over !== undefined) setTimeout(over, waitMsMax).unref();
  }

  /** The server has begun to answer the request, or never will. */
  over(exchange: Exchange): void {
    this.#over.get(exchange)?.();
  }

  /** The streams that a request of the session waits for; undefined if none is being opened. */
  before(exchange: Exchange): Promise<unknown> | undefined {
    if (this.#bySession.size === 0 || this.#over.has(exchange)) return undefined;
    return this.#bySession.get(sessionOf(exchange));
  }
}

function sessionOf({ host, port, req }: Exchange): string {
  return `${host}:${port} ${req.headers['mcp-session-id'] ?? ''}`;
}
