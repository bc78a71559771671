const lf = 0x0a;
const cr = 0x0d;

/**
 * Passes an event stream (WHATWG HTML, "Server-sent events") on event by event and lets the data
 * of each be replaced. An event goes on only once it is complete; other lines stay as they are.
 * Each byte is looked at once, however small the pieces in which a stream drips in.
 */
export class SseFilter {
  readonly #rewrite: (data: Buffer) => Buffer | 'cut';
  readonly #bytesMax: number;
  /** Pieces of the event that is not complete yet. */
  #parts: Buffer[] = [];
  #size = 0;
  #lineIsEmpty = true;
  #afterReturn = false;

  constructor(rewrite: (data: Buffer) => Buffer | 'cut', eventBytesMax: number) {
    this.#rewrite = rewrite;
    this.#bytesMax = eventBytesMax;
  }

  /**
   * What may go on now. An event that the end of the stream leaves incomplete never does:
   * clients would drop it, too (section 9.2.6).
   */
  push(bytes: Buffer): Buffer | 'cut' {
    const out: Buffer[] = [];
    let start = 0;
    for (let at = 0; at < bytes.length; at++) {
      if (!this.#endsEvent(bytes[at])) continue;
      this.#keep(bytes.subarray(start, at + 1));
      start = at + 1;
      const event = this.#size > this.#bytesMax ? 'cut' : this.#filterEvent(this.#take());
      if (event === 'cut') return 'cut';
      out.push(event);
    }
    this.#keep(bytes.subarray(start));
    if (this.#size > this.#bytesMax) return 'cut';
    return out.length === 1 && out[0] !== undefined ? out[0] : Buffer.concat(out);
  }

  /**
   * True for the byte that ends an empty line. Lines end with LF, CR or CRLF; the LF of a CRLF
   * ends nothing more and stays at the head of what follows.
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
    const lines = event
      .toString('utf8')
      .replace(/^\ufeff/, '')
      .split(/\r\n|\r|\n/);
    const data = lines.filter((line) => isField(line, 'data')).map(dataOf);
    const whole = Buffer.from(data.join('\n'), 'utf8');
    if (whole.length === 0) return event;
    const replaced = this.#rewrite(whole);
    if (replaced === 'cut') return 'cut';
    if (replaced === whole) return event;
    const others = lines.filter((line) => line !== '' && !isField(line, 'data'));
    return Buffer.from(
      [...others, `data: ${replaced.toString('utf8')}`, '', ''].join('\n'),
      'utf8',
    );
  }
}

function isField(line: string, name: string): boolean {
  return line === name || line.startsWith(`${name}:`);
}

function dataOf(line: string): string {
  const value = line.slice('data:'.length);
  return value.startsWith(' ') ? value.slice(1) : value;
}
