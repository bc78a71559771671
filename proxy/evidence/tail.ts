import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';
import { type Block, hashIn, lineIn, placeIn } from './block.ts';
import type { PendingRecords } from './read-pending.ts';

/**
 * The newest records of the spool, in memory as well: while uploads keep up, nothing that was just
 * written is read back from the disk. Kept as bytes: as texts they would live just long enough to
 * cost the garbage collector most.
 */
export class Tail {
  readonly #bytesMax: number;
  #blocks: Block[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(block: Block): void {
    this.#blocks.push(block);
    this.#bytes += block.bytes.length;
    let surplus = 0;
    while (this.#bytes > this.#bytesMax) this.#bytes -= this.#blocks[surplus++]?.bytes.length ?? 0;
    this.#blocks.splice(0, surplus);
  }

  /** What follows `position`; undefined where the disk has to be asked. */
  after(
    position: SpoolPosition,
    { recordsMax, bytesMax }: { readonly recordsMax: number; readonly bytesMax: number },
  ): PendingRecords | undefined {
    this.#forgetUpTo(position.record);
    const [oldest] = this.#blocks;
    if (oldest === undefined || oldest.first > position.record + 1) return undefined;
    const lines: Buffer[] = [];
    let last = position;
    let size = 0;
    for (const block of this.#blocks) {
      const { first, bytes, ends } = block;
      while (last.record + 1 < first + ends.length) {
        const place = placeIn(block, last.record + 1);
        const line = lineIn(bytes, place);
        size += line.length;
        const isFull = lines.length >= recordsMax || size > bytesMax;
        if (lines.length > 0 && isFull) return { after: position, lines, last };
        lines.push(line);
        last = { record: last.record + 1, hash: hashIn(bytes, place) };
      }
    }
    return { after: position, lines, last };
  }

  #forgetUpTo(record: number): void {
    const kept = this.#blocks.findIndex(({ first, ends }) => first + ends.length > record + 1);
    const gone = this.#blocks.splice(0, kept === -1 ? this.#blocks.length : kept);
    for (const { bytes } of gone) this.#bytes -= bytes.length;
  }
}
