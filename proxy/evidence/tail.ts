import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';
import type { PendingRecords } from './read-pending.ts';

/** A record as it was written: its exact text, and the position it ends at. */
export interface WrittenRecord {
  readonly line: string;
  readonly at: SpoolPosition;
}

/**
 * The newest records of the spool, in memory as well: while uploads keep up, nothing that was just
 * written is read back from the disk.
 */
export class Tail {
  readonly #charsMax: number;
  #records: WrittenRecord[] = [];
  #chars = 0;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  add(written: readonly WrittenRecord[]): void {
    for (const record of written) {
      this.#records.push(record);
      this.#chars += record.line.length;
    }
    let surplus = 0;
    while (this.#chars > this.#charsMax) this.#chars -= this.#records[surplus++]?.line.length ?? 0;
    if (surplus > 0) this.#records = this.#records.slice(surplus);
  }

  /** What follows `position`; undefined where the disk has to be asked. */
  after(
    position: SpoolPosition,
    { recordsMax, charsMax }: { readonly recordsMax: number; readonly charsMax: number },
  ): PendingRecords | undefined {
    this.#forgetUpTo(position);
    const [first] = this.#records;
    if (first?.at.record !== position.record + 1) return undefined;
    const lines: string[] = [];
    let last = position;
    let chars = 0;
    for (const { line, at } of this.#records) {
      chars += line.length;
      if (lines.length > 0 && (lines.length >= recordsMax || chars > charsMax)) break;
      lines.push(line);
      last = at;
    }
    return { after: position, lines, last };
  }

  #forgetUpTo({ record }: SpoolPosition): void {
    const kept = this.#records.findIndex(({ at }) => at.record > record);
    const gone = kept === -1 ? this.#records.length : kept;
    for (let index = 0; index < gone; index++)
      this.#chars -= this.#records[index]?.line.length ?? 0;
    if (gone > 0) this.#records = this.#records.slice(gone);
  }
}
