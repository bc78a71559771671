import type { ServerResponse } from 'node:http';
import type { JsonObject } from '../../shared/base/json.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { RefusalForm } from './recognition.ts';

/** Interval of progress notifications: below the read time-outs of common clients (httpx: 5 s). */
const progressEveryMs = 1_000;
/**
 * Small, because progress must increase with each notification, and the server later reports its
 * own progress under the same token, starting at 0 or 1.
 */
const progressStep = 0.000_001;

type ProgressToken = string | number;
type McpForm = Extract<RefusalForm, { kind: 'mcp' }>;

/**
 * The event stream that answers an MCP call while it is held: progress notifications, then the
 * response. The HTTP head is sent before the outcome is known, so a refusal is also an event.
 */
export class HeldStream {
  readonly #res: ServerResponse;
  readonly #form: McpForm;
  #timer: NodeJS.Timeout | undefined;

  constructor(res: ServerResponse, form: McpForm) {
    this.#res = res;
    this.#form = form;
  }

  /** Sends the head and a notification at once, then a notification every second. */
  begin(
    token: ProgressToken,
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    this.#res.writeHead(200, {
      ...headers,
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Content-Type-Options': 'nosniff',
    });
    let sent = 0;
    const notify = () => {
      sent += 1;
      const params = { progressToken: token, progress: sent * progressStep, message };
      this.#event({ jsonrpc: '2.0', method: 'notifications/progress', params });
    };
    notify();
    this.#timer = setInterval(notify, progressEveryMs);
  }

  stopProgress(): void {
    clearInterval(this.#timer);
  }

  /** Sends the response, a JSON-RPC message in one line, and ends the stream. */
  end(message: string): void {
    this.stopProgress();
    if (this.#res.writableEnded || this.#res.destroyed) return;
    this.#res.end(`event: message\ndata: ${message}\n\n`);
  }

  #event(message: JsonObject): void {
    if (this.#res.writableEnded || this.#res.destroyed) return;
    this.#res.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }

  /** Turns the server's response into events of this stream. */
  filter(): ResponseFilter {
    let read: (bytes: Buffer, last: boolean) => Buffer = (bytes) => bytes;
    return {
      head: (status, headers) => {
        const type = mediaType(headers['content-type']);
        const isEncoded = headers['content-encoding'] !== undefined;
        if (status !== 200 || isEncoded || !readable.has(type)) {
          const failed = eventText(JSON.stringify(this.#unreadable(status)));
          read = (_bytes, last) => (last ? failed : nothing);
        } else if (type === 'application/json') {
          read = jsonAsEvent();
        }
        return 'stream';
      },
      chunk: (bytes, last) => read(bytes, last),
    };
  }

  #unreadable(status: number): JsonObject {
    const message = `The MCP server answered the call with HTTP ${status} and no message that belongs to it. Whether the call was performed is not known.`;
    const data = { reason_code: 'mcp.answer_refused', status };
    return { jsonrpc: '2.0', id: this.#form.id, error: { code: internalError, message, data } };
  }
}

/** JSON-RPC 2.0, section 5.1. */
const internalError = -32_603;
const nothing = Buffer.alloc(0);
const readable: ReadonlySet<string> = new Set(['application/json', 'text/event-stream']);

function mediaType(value: string | readonly string[] | undefined): string {
  const text = typeof value === 'string' ? value : '';
  return (text.split(';', 1)[0] ?? '').trim().toLowerCase();
}

function eventText(message: string): Buffer {
  return Buffer.from(`event: message\ndata: ${message}\n\n`);
}

/**
 * Converts a JSON body to one event. JSON allows line breaks only as white space between tokens, so
 * spaces can replace them.
 */
function jsonAsEvent(): (bytes: Buffer, last: boolean) => Buffer {
  const [before, after] = [Buffer.from('event: message\ndata: '), Buffer.from('\n\n')];
  let hasBegun = false;
  return (bytes, last) => {
    const line = Buffer.from(bytes);
    for (const [at, byte] of line.entries()) if (byte === 0x0a || byte === 0x0d) line[at] = 0x20;
    const parts = [hasBegun ? nothing : before, line, last ? after : nothing];
    hasBegun = true;
    return Buffer.concat(parts);
  };
}
