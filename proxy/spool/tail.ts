import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import { type Block, hashIn, lineIn, placeIn } from './block.ts';
import type { PendingRecords } from './read-pending.ts';

/** Preallocated memory that is filled with blocks. */
interface Slab {
  readonly bytes: Buffer;
  used: number;
  blocks: Block[];
}

/**
 * The newest records of the spool, also kept in memory, so that uploads that keep up never read
 * from the disk. Two preallocated slabs are filled in turn, because new memory for each block would
 * live until the upload, which is expensive for the garbage collector.
 */
export class Tail {
  #newer: Slab;
  #older: Slab;

  constructor(bytesMax: number) {
    this.#newer = slabOf(bytesMax / 2);
    this.#older = slabOf(bytesMax / 2);
  }

  /** Copies a block. */
  add({ first, bytes, ends }: Block): void {
    if (this.#newer.used + bytes.length > this.#newer.bytes.length) {
      [this.#newer, this.#older] = [this.#older, this.#newer];
      empty(this.#newer);
    }
    const slab = this.#newer;
    const end = slab.used + bytes.length;
    if (end > slab.bytes.length) {
      // The block is too long to keep, and without it the earlier blocks would leave a gap.
      empty(this.#older);
      return;
    }
    bytes.copy(slab.bytes, slab.used);
    slab.blocks.push({ first, bytes: slab.bytes.subarray(slab.used, end), ends });
    slab.used = end;
  }

  /** The records after `position`; undefined if they must be read from disk. */
  after(
    position: SpoolPosition,
    { recordsMax, bytesMax }: { readonly recordsMax: number; readonly bytesMax: number },
  ): PendingRecords | undefined {
    const blocks = [...this.#older.blocks, ...this.#newer.blocks];
    const [oldest] = blocks;
    if (oldest === undefined || oldest.first > position.record + 1) return undefined;
    const lines: Buffer[] = [];
    let last = position;
    let size = 0;
    for (const block of blocks) {
      const { first, bytes, ends } = block;
      while (last.record + 1 < first + ends.length) {
        const place = placeIn(block, last.record + 1);
        const line = lineIn(bytes, place);
        size += line.length;
        const isFull = lines.length >= recordsMax || size > bytesMax;
        if (lines.length > 0 && isFull) return { after: position, lines: copied(lines), last };
        lines.push(line);
        last = { record: last.record + 1, hash: hashIn(bytes, place) };
      }
    }
    return { after: position, lines: copied(lines), last };
  }
}

function slabOf(bytes: number): Slab {
  return { bytes: Buffer.allocUnsafeSlow(bytes), used: 0, blocks: [] };
}

function empty(slab: Slab): void {
  slab.used = 0;
  slab.blocks = [];
}

/** Copies lines, because slabs are overwritten while lines are being uploaded. */
function copied(lines: readonly Buffer[]): Buffer[] {
  const bytes = Buffer.concat(lines);
  let end = 0;
  return lines.map(({ length }) => {
    end += length;
    return bytes.subarray(end - length, end);
  });
}
