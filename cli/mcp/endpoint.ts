import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { SettingsError } from '../../shared/base/settings.ts';
import type { Child } from './child.ts';
import { linesOf } from './lines.ts';
import { type Envelope, idKey, readEnvelope } from './message.ts';

interface Waiting {
  readonly res: ServerResponse;
  /** By which the server names the request in what it tells of its progress. */
  readonly progressToken: string | undefined;
}

const eventStream = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };
/** What a server says while nobody listens; the oldest goes first. */
const unheardMax = 1_000;
const bodyBytesMax = 16 * 1024 ** 2;

/**
 * The server's process as a Streamable HTTP endpoint on loopback, for the sidecar to dial. Only
 * requests with the session that this very bridge made up are carried: all of them went through
 * the sidecar, because the bridge sends none elsewhere.
 */
export class Endpoint {
  readonly #child: Child;
  readonly #session: Buffer;
  readonly #server = createServer((req, res) => void this.#answer(req, res));
  readonly #waiting = new Map<string, Waiting>();
  #stream: ServerResponse | undefined;
  #unheard: Buffer[] = [];

  constructor({ child, session }: { readonly child: Child; readonly session: string }) {
    this.#child = child;
    this.#session = Buffer.from(session);
    // Answers may take as long as the server likes.
    this.#server.requestTimeout = 0;
  }

  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<void> {
    this.#server.listen(port, host);
    try {
      await once(this.#server, 'listening');
    } catch (cause) {
      const taken = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE';
      const reason = taken
        ? 'it is taken, perhaps by this server started a second time; each running server needs a binding with a port of its own'
        : (cause as Error).message;
      throw new SettingsError(`Cannot listen on ${host}:${port}: ${reason}.`, { cause });
    }
  }

  /** Carries what the server says to whom it concerns, until its output ends. */
  async follow(): Promise<void> {
    for await (const line of linesOf(this.#child.output)) {
      const message = readEnvelope(line.toString('utf8'));
      if (message === undefined) {
        process.stderr.write('sallyport: the server wrote a line that is no message; left out\n');
        continue;
      }
      await this.#deliver(withoutCr(line), message);
    }
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.on('error', () => {});
    try {
      if (!this.#isOurs(req.headers['mcp-session-id']))
        return refuse(res, 403, 'Not a session of this server.');
      if (req.method === 'GET') return this.#open(res);
      if (req.method !== 'POST') return refuse(res, 405, 'This server is ended by its client.');
      await this.#take(await bodyOf(req), res);
    } catch {
      res.destroy();
    }
  }

  #isOurs(session: string | string[] | undefined): boolean {
    const given = Buffer.from(String(session ?? ''));
    return given.length === this.#session.length && timingSafeEqual(given, this.#session);
  }

  /** The stream for what the server says of its own accord; a new one takes the place of the last. */
  #open(res: ServerResponse): void {
    this.#stream?.end();
    this.#stream = res;
    res.once('close', () => {
      if (this.#stream === res) this.#stream = undefined;
    });
    res.writeHead(200, eventStream).flushHeaders();
    for (const line of this.#unheard.splice(0)) void writeEvent(res, line);
  }

  async #take(body: Buffer, res: ServerResponse): Promise<void> {
    const message = readEnvelope(body.toString('utf8'));
    // One line is one message: nothing may be smuggled in behind it.
    if (message === undefined || body.includes(10)) return refuse(res, 400, 'Not one message.');
    if (message.method === undefined || message.id === undefined) {
      await this.#child.send(body);
      res.writeHead(202).end();
      return;
    }
    if (this.#waiting.has(idKey(message.id))) return refuse(res, 400, 'This id is in use.');
    this.#await(message, res);
    await this.#child.send(body);
  }

  #await({ id, params }: Envelope, res: ServerResponse): void {
    const meta = params._meta as { readonly progressToken?: unknown } | undefined;
    const token = meta?.progressToken;
    this.#waiting.set(idKey(id), {
      res,
      progressToken: token === undefined ? undefined : idKey(token),
    });
    // Whoever stops waiting, an agent or a kill switch, wants no more of it.
    res.once('close', () => {
      if (!this.#waiting.delete(idKey(id))) return;
      const params = { requestId: id, reason: 'The call was ended.' };
      const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params };
      void this.#child.send(Buffer.from(JSON.stringify(cancelled)));
    });
    res.writeHead(200, eventStream).flushHeaders();
  }

  async #deliver(line: Buffer, message: Envelope): Promise<void> {
    if (message.method === undefined) {
      const key = idKey(message.id);
      const asked = this.#waiting.get(key);
      // Nobody waits for the answer to a call that was ended.
      if (asked === undefined) return;
      this.#waiting.delete(key);
      await writeEvent(asked.res, line);
      asked.res.end();
      return;
    }
    const res = this.#progressOf(message) ?? this.#stream;
    if (res !== undefined) return writeEvent(res, line);
    this.#unheard.push(line);
    if (this.#unheard.length > unheardMax) this.#unheard.shift();
  }

  #progressOf({ method, params }: Envelope): ServerResponse | undefined {
    if (method !== 'notifications/progress') return undefined;
    const token = idKey(params.progressToken);
    return [...this.#waiting.values()].find(({ progressToken }) => progressToken === token)?.res;
  }
}

const cr = 13;

/** In JSON text it can only stand between tokens; in an event stream it would end a line. */
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
    if (bytes > bodyBytesMax) throw new Error('too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
