import type { ExportStatement } from '../../shared/ledger/bundle/statement.ts';
import { readTrailer, trailerBytesMax } from '../../shared/ledger/bundle/trailer.ts';

const headBytes = 64;

/** Passes an export on unchanged, and keeps its first and last bytes to read its statement from. */
export class ExportEnd {
  #head: Uint8Array = new Uint8Array();
  #tail: Uint8Array[] = [];
  #tailBytes = 0;

  async *watch(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      if (this.#head.length < headBytes) {
        this.#head = Buffer.concat([this.#head, part.subarray(0, headBytes)]);
      }
      this.#keep(part);
      yield part;
    }
  }

  #keep(part: Uint8Array): void {
    this.#tail.push(part);
    this.#tailBytes += part.length;
    let first = this.#tail[0] ?? part;
    while (this.#tailBytes - first.length >= trailerBytesMax) {
      this.#tail.shift();
      this.#tailBytes -= first.length;
      first = this.#tail[0] ?? part;
    }
  }

  /** What the export says of itself; undefined if it was broken off. */
  statement(): ExportStatement | undefined {
    const head = Buffer.from(this.#head).toString('utf8');
    return readTrailer(Buffer.concat(this.#tail), head)?.statement;
  }
}
