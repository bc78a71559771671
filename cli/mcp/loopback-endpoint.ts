import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { SettingsError } from '../../shared/base/settings.ts';
import { type Envelope, idKey, linesOf, readEnvelope } from './messages.ts';
import type { ServerProcess } from './server-process.ts';

interface Waiting {
  readonly res: ServerResponse;
  /** The token in the server's progress notifications for this request. */
  readonly progressToken: string | undefined;
}

const eventStream = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };
/** Messages kept while no stream is open; the oldest is dropped first. */
const undeliveredMax = 1_000;
const bodyBytesMax = 16 * 1024 ** 2;

/**
 * Serves the server's process as a Streamable HTTP endpoint on loopback, which the sidecar calls.
 * The endpoint accepts only the session id that this bridge generated. The bridge sends that id to
 * the sidecar only, so every accepted request went through the sidecar.
 */
export class LoopbackEndpoint {
  readonly #server: ServerProcess;
  readonly #session: Buffer;
  readonly #http = createServer((req, res) => void this.#answer(req, res));
  readonly #waiting = new Map<string, Waiting>();
  #stream: ServerResponse | undefined;
  #undelivered: Buffer[] = [];

  constructor({
    server,
    session,
  }: {
    readonly server: ServerProcess;
    readonly session: string;
  }) {
    this.#server = server;
    this.#session = Buffer.from(session);
    // A server may take any time to respond.
    this.#http.requestTimeout = 0;
  }

  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<void> {
    this.#http.listen(port, host);
    try {
      await once(this.#http, 'listening');
    } catch (cause) {
      const isInUse = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE';
      const reason = isInUse
        ? 'the port is in use, perhaps by a second instance of this server; each running server needs a binding with a port of its own'
        : (cause as Error).message;
      throw new SettingsError(`Cannot listen on ${host}:${port}: ${reason}.`, { cause });
    }
  }

  /**
   * Relays the server's messages to the requests and streams that they belong to, until the
   * server's output ends.
   */
  async relayOutput(): Promise<void> {
    for await (const line of linesOf(this.#server.output)) {
      const message = readEnvelope(line.toString('utf8'));
      if (message === undefined) {
        process.stderr.write(
          'sallyport: ignored a line of the server that is not a JSON-RPC message\n',
        );
        continue;
      }
      await this.#deliver(withoutCr(line), message);
    }
  }

  close(): void {
    this.#http.close();
    this.#http.closeAllConnections();
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.on('error', () => {});
    try {
      if (!this.#isOwnSession(req.headers['mcp-session-id']))
        return refuse(res, 403, 'The session id is unknown.');
      if (req.method === 'GET') return this.#open(res);
      if (req.method !== 'POST')
        return refuse(res, 405, 'The method is not allowed; use GET or POST.');
      await this.#receive(await bodyOf(req), res);
    } catch {
      res.destroy();
    }
  }

  #isOwnSession(session: string | string[] | undefined): boolean {
    const given = Buffer.from(String(session ?? ''));
    return given.length === this.#session.length && timingSafeEqual(given, this.#session);
  }

  /** Opens the stream for messages that the server sends on its own. A new stream replaces the last one. */
  #open(res: ServerResponse): void {
    this.#stream?.end();
    this.#stream = res;
    res.once('close', () => {
      if (this.#stream === res) this.#stream = undefined;
    });
    res.writeHead(200, eventStream).flushHeaders();
    for (const line of this.#undelivered.splice(0)) void writeEvent(res, line);
  }

  async #receive(body: Buffer, res: ServerResponse): Promise<void> {
    const message = readEnvelope(body.toString('utf8'));
    // Each line is one message, so a line feed would start a second one.
    if (message === undefined || body.includes(10))
      return refuse(res, 400, 'The body is not exactly one JSON-RPC message.');
    if (message.method === undefined || message.id === undefined) {
      await this.#server.send(body);
      res.writeHead(202).end();
      return;
    }
    if (this.#waiting.has(idKey(message.id))) return refuse(res, 400, 'The request id is in use.');
    this.#await(message, res);
    await this.#server.send(body);
  }

  #await({ id, params }: Envelope, res: ServerResponse): void {
    const meta = params._meta as { readonly progressToken?: unknown } | undefined;
    const token = meta?.progressToken;
    this.#waiting.set(idKey(id), {
      res,
      progressToken: token === undefined ? undefined : idKey(token),
    });
    // The agent or a kill switch ended the call, so the server should stop working on it.
    res.once('close', () => {
      if (!this.#waiting.delete(idKey(id))) return;
      const params = { requestId: id, reason: 'The call was ended.' };
      const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
      void this.#server.send(Buffer.from(JSON.stringify(cancelled)));
    });
    res.writeHead(200, eventStream).flushHeaders();
  }

  async #deliver(line: Buffer, message: Envelope): Promise<void> {
    if (message.method === undefined) {
      const key = idKey(message.id);
      const waiting = this.#waiting.get(key);
      // The call was ended, so no request waits for this response.
      if (waiting === undefined) return;
      this.#waiting.delete(key);
      await writeEvent(waiting.res, line);
      waiting.res.end();
      return;
    }
    const res = this.#progressOf(message) ?? this.#stream;
    if (res !== undefined) return writeEvent(res, line);
    this.#undelivered.push(line);
    if (this.#undelivered.length > undeliveredMax) this.#undelivered.shift();
  }

  #progressOf({ method, params }: Envelope): ServerResponse | undefined {
    if (method !== 'notifications/progress') return undefined;
    const token = idKey(params.progressToken);
    return [...this.#waiting.values()].find(({ progressToken }) => progressToken === token)?.res;
  }
}

const cr = 13;

/** Replaces CR, which JSON allows between tokens only, and which would end a line of an event stream. */
function withoutCr(line: Buffer): Buffer {
  return line.includes(cr) ? (line.map((byte) => (byte === cr ? 32 : byte)) as Buffer) : line;
}

async function writeEvent(res: ServerResponse, line: Buffer): Promise<void> {
  if (
    res.destroyed ||
    res.write(Buffer.concat([Buffer.from('data: '), line, Buffer.from('\n\n')]))
  ) {
    return;
  }
  await Promise.race([once(res, 'drain'), once(res, 'close')]);
}

function refuse(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { 'content-type': 'text/plain' }).end(text);
}

async function bodyOf(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new Error('the body is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
