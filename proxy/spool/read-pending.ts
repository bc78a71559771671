import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import { lineIn, linkBytes, linkIn } from './block.ts';
import { sound } from './recover.ts';
import {
  readSegment,
  type Segment,
  type SegmentEntry,
  type SegmentPlace,
  segmentsIn,
} from './segment.ts';

export interface PendingRecords {
  /** The position that the first line follows. */
  readonly after: SpoolPosition;
  /** Exact bytes, each with its line feed. */
  readonly lines: readonly Buffer[];
  readonly last: SpoolPosition;
}

/** The start of the first unacknowledged record; unknown if `segment` is empty. */
export interface Cursor extends SegmentPlace {
  readonly segment: string;
}

interface ReadOptions {
  readonly folder: string;
  readonly acked: SpoolPosition;
  readonly written: SpoolPosition;
  readonly cursor: Cursor;
  readonly recordsMax: number;
  /** Must be at least the size of the longest record. */
  readonly bytesMax: number;
  /** Called for each record that differs from what was written. */
  readonly onDamaged: (segment: string, record: number) => void;
}

/**
 * Collects consecutive linked records. Damaged records are skipped, so that later ones are still
 * uploaded; the missing numbers show the gap.
 */
class Batch {
  readonly #options: ReadOptions;
  #after: SpoolPosition;
  #lines: Buffer[] = [];
  #before: SpoolPosition;
  cursor: Cursor;
  /** Total bytes of the collected records, including their links. */
  bytes = 0;

  constructor(options: ReadOptions) {
    this.#options = options;
    this.#after = options.acked;
    this.#before = options.acked;
    this.cursor = options.cursor;
  }

  /**
   * Continues with the segment that begins after `position`; false if the batch must end before it.
   */
  opens(position: SpoolPosition): boolean {
    if (position.record === this.#before.record) return true;
    if (this.#lines.length > 0) return false;
    this.#before = position;
    return true;
  }

  /** Adds an entry; false if the batch ends before this entry. */
  take(segment: string, bytes: Buffer, entry: SegmentEntry): boolean {
    const { acked, written, recordsMax, onDamaged } = this.#options;
    if (entry.record > written.record || this.#lines.length >= recordsMax) return false;
    if (entry.record > acked.record) {
      const isSound = linkIn(bytes, entry.place, this.#before.hash) === entry.hash;
      if (!isSound && this.#lines.length > 0) return false;
      if (!isSound) onDamaged(segment, entry.record);
      else {
        if (this.#lines.length === 0) this.#after = this.#before;
        const line = lineIn(bytes, entry.place);
        this.#lines.push(line);
        this.bytes += line.length + linkBytes;
      }
      this.cursor = { segment, record: entry.record + 1, offset: entry.endsAt };
    }
    this.#before = sound(entry);
    return true;
  }

  result(): PendingRecords {
    const { acked } = this.#options;
    const last = this.#before.record < acked.record ? acked : this.#before;
    return { after: this.#lines.length === 0 ? last : this.#after, lines: this.#lines, last };
  }
}

/** Reads the records after the acknowledged position. Also returns the cursor at which the read ended. */
export function readPending(options: ReadOptions): {
  readonly pending: PendingRecords;
  readonly cursor: Cursor;
} {
  const { folder, cursor } = options;
  const batch = new Batch(options);
  for (const segment of segmentsIn(folder)) {
    if (segment.name < cursor.segment) continue;
    const from = segment.name === cursor.segment ? cursor : undefined;
    if (from === undefined && !batch.opens(segment.after)) break;
    if (!readInto(batch, segment, from, options)) break;
  }
  return { pending: batch.result(), cursor: batch.cursor };
}

/** Adds a segment's records; false if the batch ends within the segment. */
function readInto(
  batch: Batch,
  segment: Segment,
  from: SegmentPlace | undefined,
  { folder, bytesMax, recordsMax }: ReadOptions,
): boolean {
  let place = from;
  for (;;) {
    const left = bytesMax - batch.bytes;
    if (left <= 0) return false;
    const { bytes, entries, reachesEnd } = readSegment(folder, segment, place, {
      bytesMax: left,
      recordsMax,
    });
    if (!entries.every((entry) => batch.take(segment.name, bytes, entry))) return false;
    if (reachesEnd) return true;
    const end = entries.at(-1);
    // The read continues only if all records so far were already acknowledged and the batch is
    // empty.
    if (end === undefined || batch.bytes > 0) return false;
    place = { record: end.record + 1, offset: end.endsAt };
  }
}
