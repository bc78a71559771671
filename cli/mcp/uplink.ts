import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { writeMcpHeaders } from '../../proxy/mcp/headers.ts';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { eventsOf } from './events.ts';
import { type Envelope, failure, idKey, readEnvelope } from './message.ts';
import type { Sidecar } from './through-sidecar.ts';

interface UplinkOptions {
  readonly sidecar: Sidecar;
  /** The endpoint, as the binding names it. */
  readonly url: string;
  readonly session: string;
  /** Writes one line to the client; resolves when it takes more. */
  readonly write: (line: string) => Promise<void>;
  readonly warn: (text: string) => void;
}

interface Pending {
  readonly id: string | number;
  readonly leave: AbortController;
}

const versionMember = 'io.modelcontextprotocol/protocolVersion';
const statelessSince = '2026-07-28';
const answerCharsMax = 64 * 1024 ** 2;
const notedMs = 30_000;
const retryMs = { first: 200, longest: 30_000 };

/**
 * The client's messages, sent through the sidecar one by one as they are, and what comes back.
 * Each request gets exactly one answer, whatever becomes of it.
 */
export class Uplink {
  readonly #options: UplinkOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #closed = new AbortController();
  /** The revision that `initialize` settled on. */
  #version: string | undefined;

  constructor(options: UplinkOptions) {
    this.#options = options;
  }

  /** Takes a message of the client. Resolves when the next one may follow it. */
  async take(line: Buffer): Promise<void> {
    const message = readEnvelope(line.toString('utf8'));
    if (message?.method === undefined || message.id === undefined) {
      await this.#tell(line, message);
      if (message?.method === 'notifications/cancelled') this.#cancel(message);
      return;
    }
    const key = idKey(message.id);
    if (this.#pending.has(key)) {
      return this.#options.write(failure(message.id, 'This id is in use by another request.'));
    }
    const pending = { id: message.id, leave: new AbortController() };
    this.#pending.set(key, pending);
    void this.#ask(line, message, pending);
  }

  /** Follows what the server says of its own accord, for as long as the bridge stands. */
  async follow(): Promise<void> {
    const { signal } = this.#closed;
    let waitMs = retryMs.first;
    while (!signal.aborted) {
      try {
        const res = await this.#send({ method: 'GET', signal });
        if (res.statusCode === 200) {
          waitMs = retryMs.first;
          for await (const data of eventsOf(res)) await this.#options.write(data);
        } else res.resume();
      } catch {
        // The sidecar is away, or a kill switch ended it: tried again.
      }
      await delay(waitMs, undefined, { signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, retryMs.longest);
    }
  }

  /** Ends all that is under way; each open request is told why. */
  async close(why: string): Promise<void> {
    this.#closed.abort();
    const open = [...this.#pending.values()];
    this.#pending.clear();
    for (const { id, leave } of open) {
      leave.abort();
      await this.#options.write(failure(id, why));
    }
  }

  /** A call that its client gave up must not be performed when a human allows it later. */
  #cancel({ params }: Envelope): void {
    const key = idKey(params.requestId);
    const pending = this.#pending.get(key);
    this.#pending.delete(key);
    pending?.leave.abort();
  }

  async #ask(line: Buffer, message: Envelope, { id, leave }: Pending): Promise<void> {
    const key = idKey(id);
    let why: string;
    try {
      const res = await this.#send({ body: line, message, signal: leave.signal });
      why = await this.#relay(res, { key, isHandshake: message.method === 'initialize' });
    } catch (error) {
      why = this.#explain(error as NodeJS.ErrnoException);
    }
    if (!this.#pending.delete(key)) return;
    await this.#options.write(failure(id, why));
  }

  /** Passes an answer on. Returns why there was none, for the case that there was none. */
  async #relay(
    res: IncomingMessage,
    asked: { readonly key: string; readonly isHandshake: boolean },
  ): Promise<string> {
    if (/^text\/event-stream/i.test(res.headers['content-type'] ?? '')) {
      for await (const data of eventsOf(res)) await this.#pass(data, asked);
      return 'The call was ended before it was answered; what was done until then stands in the evidence.';
    }
    const text = await textOf(res);
    const answer = readEnvelope(text);
    if (answer !== undefined && answer.method === undefined && idKey(answer.id) === asked.key) {
      await this.#pass(text, asked);
    }
    return refusalText(text, res.statusCode);
  }

  async #pass(
    text: string,
    { key, isHandshake }: { readonly key: string; readonly isHandshake: boolean },
  ): Promise<void> {
    const message = readEnvelope(text);
    if (message === undefined) return;
    if (message.method === undefined) {
      // One answer for each request; one that was given up gets none.
      if (idKey(message.id) !== key || !this.#pending.delete(key)) return;
      if (isHandshake) this.#settle(message);
    }
    await this.#options.write(text);
  }

  #settle({ result }: Envelope): void {
    const version = isJsonObject(result) ? result.protocolVersion : undefined;
    if (typeof version === 'string') this.#version = version;
  }

  /** Sends what asks for no answer: a notification, a response, or what is no message at all. */
  async #tell(line: Buffer, message: Envelope | undefined): Promise<void> {
    try {
      const signal = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(notedMs)]);
      const res = await this.#send({ body: line, message, signal });
      const text = await textOf(res);
      if (res.statusCode === 202 || this.#closed.signal.aborted) return;
      const why = refusalText(text, res.statusCode);
      this.#options.warn(`a message was not delivered: ${why}`);
      if (message?.method === undefined && message?.id === undefined) {
        await this.#options.write(failure(null, why));
      }
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      this.#options.warn(`a message was not delivered: ${this.#explain(error as Error)}`);
    }
  }

  #send({
    method = 'POST',
    body,
    message,
    signal,
  }: {
    readonly method?: 'GET' | 'POST';
    readonly body?: Buffer;
    readonly message?: Envelope | undefined;
    readonly signal: AbortSignal;
  }): Promise<IncomingMessage> {
    const { sidecar, url } = this.#options;
    const headers: Record<string, string> = {
      accept: body === undefined ? 'text/event-stream' : 'application/json, text/event-stream',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...this.#mcpHeaders(message),
    };
    return sidecar.send({ method, url, headers, signal, ...(body === undefined ? {} : { body }) });
  }

  /** The headers that repeat the body, as its revision wants them. */
  #mcpHeaders(message: Envelope | undefined): Record<string, string> {
    const { session } = this.#options;
    const meta = message?.params._meta;
    const own = isJsonObject(meta) ? meta[versionMember] : undefined;
    const version = typeof own === 'string' ? own : this.#version;
    const known = new Map([['mcp-session-id', session]]);
    if (version !== undefined && message?.method !== 'initialize') {
      known.set('mcp-protocol-version', version);
    }
    if (message?.method === undefined) return Object.fromEntries(known);
    const { id = 0, method, params } = message;
    const agreement = { isStateless: (version ?? '') >= statelessSince, params: [] };
    const written = writeMcpHeaders(known, { kind: 'request', id, method, params }, agreement);
    return pairs(written);
  }

  #explain({ code }: NodeJS.ErrnoException): string {
    return code === 'ECONNREFUSED'
      ? `The sidecar cannot be reached at ${this.#options.sidecar.url}; the call was not performed.`
      : 'The sidecar broke off before it answered; what was done until then stands in the evidence.';
  }
}

function pairs(raw: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    found[raw[index] ?? ''] = raw[index + 1] ?? '';
  }
  return found;
}

async function textOf(res: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of res.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk;
    if (text.length > answerCharsMax) throw new Error('the answer is too large');
  }
  return text;
}

/** What the sidecar says in a refusal, in either of its forms. */
function refusalText(text: string, status: number | undefined): string {
  const byDefault = `The sidecar answered with status ${status}.`;
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return byDefault;
  }
  if (!isJsonObject(body)) return byDefault;
  const { error } = body as JsonObject;
  if (isJsonObject(error)) return typeof error.message === 'string' ? error.message : byDefault;
  const reason = typeof body.reason_code === 'string' ? `${body.reason_code}: ` : '';
  return typeof error === 'string' ? `${reason}${error}` : byDefault;
}
