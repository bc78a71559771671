import { isUtf8 } from 'node:buffer';

/** Returns the new data of one event; `type` is the event's name, if it has one. */
type Rewrite = (data: Buffer, type: string | undefined) => Buffer | 'cut';

const lf = 0x0a;
const cr = 0x0d;

/**
 * Forwards an event stream (WHATWG HTML, "Server-sent events") event by event, and can replace the
 * data of each. An event is forwarded only when it is complete, and only with lines that the
 * standard defines, so that all clients read the same data. Reads each byte once, whatever the size
 * of the chunks.
 */
export class SseFilter {
  readonly #rewrite: Rewrite;
  readonly #bytesMax: number;
  /** Pieces of the event that is not complete yet. */
  #parts: Buffer[] = [];
  #size = 0;
  #lineIsEmpty = true;
  #afterReturn = false;
  /** A rewritten event already ends with LF, so the LF of a CRLF after it is dropped. */
  #lastWasRewritten = false;

  constructor(rewrite: Rewrite, eventBytesMax: number) {
    this.#rewrite = rewrite;
    this.#bytesMax = eventBytesMax;
  }

  /**
   * Returns the bytes that may be forwarded now. An event that is incomplete at the end of the
   * stream is dropped, as clients do (section 9.2.6).
   */
  push(bytes: Buffer): Buffer | 'cut' {
    const out: Buffer[] = [];
    let start = 0;
    for (let at = 0; at < bytes.length; at++) {
      const isPairedLf = this.#pairsWithEvent(bytes[at], at === start);
      if (!this.#endsEvent(bytes[at]) && !isPairedLf) continue;
      const ended = bytes.subarray(start, at + 1);
      start = at + 1;
      if (isPairedLf) {
        if (!this.#lastWasRewritten) out.push(ended);
        continue;
      }
      this.#keep(ended);
      const event = this.#size > this.#bytesMax ? 'cut' : this.#filterEvent(this.#take());
      if (event === 'cut') return 'cut';
      out.push(event);
    }
    this.#keep(bytes.subarray(start));
    if (this.#size > this.#bytesMax) return 'cut';
    return out.length === 1 && out[0] !== undefined ? out[0] : Buffer.concat(out);
  }

  /**
   * True for the byte that ends an empty line. Lines end with LF, CR or CRLF; in a CRLF, the CR
   * already ends the line.
   */
  #endsEvent(byte: number | undefined): boolean {
    const isPaired = byte === lf && this.#afterReturn;
    this.#afterReturn = byte === cr;
    if (isPaired) return false;
    const endsLine = byte === lf || byte === cr;
    const isBlank = endsLine && this.#lineIsEmpty;
    this.#lineIsEmpty = endsLine;
    return isBlank;
  }

  /**
   * True for the LF of a CRLF whose CR ended an event. This LF is forwarded with the event, because
   * parsers that wait for it would otherwise see the event late.
   */
  #pairsWithEvent(byte: number | undefined, isFirst: boolean): boolean {
    return isFirst && this.#size === 0 && this.#afterReturn && byte === lf;
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#parts.push(bytes);
    this.#size += bytes.length;
  }

  #take(): Buffer {
    const [only] = this.#parts;
    const event = this.#parts.length === 1 && only ? only : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#size = 0;
    return event;
  }

  #filterEvent(event: Buffer): Buffer | 'cut' {
    if (!isUtf8(event)) return 'cut';
    const text = event.toString('utf8');
    const lines = text.replace(/^\ufeff/, '').split(/\r\n|\r|\n/);
    const data = lines.filter((line) => isField(line, 'data')).map(fieldValue);
    const whole = Buffer.from(data.join('\n'), 'utf8');
    const type = lines.findLast((line) => isField(line, 'event'));
    const replaced =
      whole.length === 0
        ? whole
        : this.#rewrite(whole, type === undefined ? type : fieldValue(type));
    if (replaced === 'cut') return 'cut';
    const isPlain = !oddSeparators.test(text) && lines.every(isKnown);
    this.#lastWasRewritten = replaced !== whole || !isPlain;
    return !this.#lastWasRewritten ? event : writeEvent(lines, replaced.toString('utf8'));
  }
}

/**
 * Control characters and separators that end a line only for clients that split lines as Python
 * does, not by the standard; and byte order marks, which some clients strip.
 */
const oddSeparators = /[^\P{Cc}\t\n\r]|[\p{Zl}\p{Zp}\ufeff]/u;
const escaped = new RegExp(oddSeparators, 'gu');

/** Writes the event so that every parser reads the same lines. `data` is JSON, or nothing. */
function writeEvent(lines: readonly string[], data: string): Buffer {
  const others = lines.filter(
    (line) => line !== '' && isKnown(line) && !isField(line, 'data') && !oddSeparators.test(line),
  );
  // JSON has these characters only in strings, where an escape sequence means the same.
  const plain = data.replaceAll(
    escaped,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const written = data === '' ? [] : plain.split('\n').map((line) => `data: ${line}`);
  return Buffer.from([...others, ...written, '', ''].join('\n'), 'utf8');
}

const knownLine = /^(?:$|:|(?:data|event|id|retry)(?::|$))/;

function isKnown(line: string): boolean {
  return knownLine.test(line);
}

function isField(line: string, name: string): boolean {
  return line === name || line.startsWith(`${name}:`);
}

function fieldValue(line: string): string {
  const colon = line.indexOf(':');
  if (colon === -1) return '';
  const value = line.slice(colon + 1);
  return value.startsWith(' ') ? value.slice(1) : value;
}
