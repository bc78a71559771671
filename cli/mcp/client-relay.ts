import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { writeMcpHeaders } from '../../proxy/mcp/headers.ts';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { serverSentEvents } from '../support/server-sent-events.ts';
import { type Envelope, failure, idKey, readEnvelope } from './messages.ts';
import type { Sidecar } from './sidecar.ts';

interface RelayOptions {
  readonly sidecar: Sidecar;
  /** The endpoint, from the binding. */
  readonly url: string;
  readonly session: string;
  /** Writes one line to the client; resolves when the client accepts more. */
  readonly write: (line: string) => Promise<void>;
  readonly warn: (text: string) => void;
}

interface Pending {
  readonly id: string | number;
  readonly controller: AbortController;
}

const versionMember = 'io.modelcontextprotocol/protocolVersion';
const statelessSince = '2026-07-28';
const responseCharsMax = 64 * 1024 ** 2;
const notificationMs = 30_000;
const retryMs = { first: 200, longest: 30_000 };

/**
 * Relays the client's messages through the sidecar, one by one and unchanged, and relays the
 * responses back to the client. Each request gets exactly one response, even if the sidecar or the
 * server fails.
 */
export class ClientRelay {
  readonly #options: RelayOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #closed = new AbortController();
  /** The protocol version that `initialize` negotiated. */
  #version: string | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Sends a message of the client. Resolves when the next message may follow. */
  async send(line: Buffer): Promise<void> {
    const message = readEnvelope(line.toString('utf8'));
    if (message?.method === undefined || message.id === undefined) {
      await this.#notify(line, message);
      if (message?.method === 'notifications/cancelled') this.#cancel(message);
      return;
    }
    const key = idKey(message.id);
    if (this.#pending.has(key)) {
      return this.#options.write(
        failure(message.id, 'The request id is in use by another request.'),
      );
    }
    const pending = { id: message.id, controller: new AbortController() };
    this.#pending.set(key, pending);
    void this.#request(line, message, pending);
  }

  /** Relays messages that the server sends on its own, until the bridge is closed. */
  async followServerMessages(): Promise<void> {
    const { signal } = this.#closed;
    let waitMs = retryMs.first;
    while (!signal.aborted) {
      try {
        const res = await this.#call({ method: 'GET', signal });
        if (res.statusCode === 200) {
          waitMs = retryMs.first;
          for await (const data of jsonEvents(res)) await this.#options.write(data);
        } else res.resume();
      } catch {
        // The sidecar is unavailable, or a kill switch ended the stream: retry.
      }
      await delay(waitMs, undefined, { signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, retryMs.longest);
    }
  }

  /** Ends all pending requests, each with an error response that states the reason. */
  async close(reason: string): Promise<void> {
    this.#closed.abort();
    const open = [...this.#pending.values()];
    this.#pending.clear();
    for (const { id, controller } of open) {
      controller.abort();
      await this.#options.write(failure(id, reason));
    }
  }

  /** Ends the call, so that it is not executed if a human approves it later. */
  #cancel({ params }: Envelope): void {
    const key = idKey(params.requestId);
    const pending = this.#pending.get(key);
    this.#pending.delete(key);
    pending?.controller.abort();
  }

  async #request(line: Buffer, message: Envelope, { id, controller }: Pending): Promise<void> {
    const key = idKey(id);
    let reason: string;
    try {
      const res = await this.#call({ body: line, message, signal: controller.signal });
      reason = await this.#relay(res, { key, isHandshake: message.method === 'initialize' });
    } catch (error) {
      reason = this.#explain(error as NodeJS.ErrnoException);
    }
    if (!this.#pending.delete(key)) return;
    await this.#options.write(failure(id, reason));
  }

  /** Relays a response. If the response did not answer the request, returns the reason to report. */
  async #relay(
    res: IncomingMessage,
    request: { readonly key: string; readonly isHandshake: boolean },
  ): Promise<string> {
    if (/^text\/event-stream/i.test(res.headers['content-type'] ?? '')) {
      for await (const data of jsonEvents(res)) await this.#forward(data, request);
      return 'The call was ended before the response; the evidence records what was done until then.';
    }
    const text = await textOf(res);
    const response = readEnvelope(text);
    if (response?.method === undefined && idKey(response?.id) === request.key) {
      await this.#forward(text, request);
    }
    return refusalText(text, res.statusCode);
  }

  async #forward(
    text: string,
    { key, isHandshake }: { readonly key: string; readonly isHandshake: boolean },
  ): Promise<void> {
    const message = readEnvelope(text);
    if (message === undefined) return;
    if (message.method === undefined) {
      // Each request gets one response; a cancelled request gets none.
      if (idKey(message.id) !== key || !this.#pending.delete(key)) return;
      if (isHandshake) this.#storeVersion(message);
    }
    await this.#options.write(text);
  }

  #storeVersion({ result }: Envelope): void {
    const version = isJsonObject(result) ? result.protocolVersion : undefined;
    if (typeof version === 'string') this.#version = version;
  }

  /** Sends a line that gets no response: a notification, a response, or invalid JSON. */
  async #notify(line: Buffer, message: Envelope | undefined): Promise<void> {
    try {
      const signal = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(notificationMs)]);
      const res = await this.#call({ body: line, message, signal });
      const text = await textOf(res);
      if (res.statusCode === 202 || this.#closed.signal.aborted) return;
      const reason = refusalText(text, res.statusCode);
      this.#options.warn(`a message was not delivered: ${reason}`);
      if (message?.method === undefined && message?.id === undefined) {
        await this.#options.write(failure(null, reason));
      }
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      this.#options.warn(`a message was not delivered: ${this.#explain(error as Error)}`);
    }
  }

  #call({
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

  /** The headers that repeat members of the body, as the protocol version requires. */
  #mcpHeaders(message: Envelope | undefined): Record<string, string> {
    const { session } = this.#options;
    const meta = message?.params._meta;
    const given = isJsonObject(meta) ? meta[versionMember] : undefined;
    const version = typeof given === 'string' ? given : this.#version;
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
      ? `The sidecar at ${this.#options.sidecar.url} is unreachable; the call was not executed.`
      : 'The sidecar closed the connection before the response; the evidence records what was done until then.';
  }
}

/** The data of each event, on one line. */
async function* jsonEvents(stream: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const limits = { charactersMax: responseCharsMax };
  for await (const { data } of serverSentEvents(stream, limits)) {
    // JSON allows line ends between tokens only.
    if (data !== undefined) yield data.replaceAll('\n', ' ');
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
    if (text.length > responseCharsMax) throw new Error('the response is too large');
  }
  return text;
}

/** The message of a refusal, from a JSON-RPC error or from the sidecar's JSON body. */
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
