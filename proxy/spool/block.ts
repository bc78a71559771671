import { hash } from 'node:crypto';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';

/** The range of a record in a buffer, from its hash to its line feed: `hash line\n`. */
export interface Place {
  readonly begin: number;
  readonly end: number;
}

/** Consecutive records, as the bytes of a segment. */
export interface Block {
  /** Number of the first record. */
  readonly first: number;
  readonly bytes: Buffer;
  /** Offsets just after each record. */
  readonly ends: readonly number[];
}

export interface Line {
  readonly text: string;
  /** Length in UTF-8. */
  readonly bytes: number;
}

const hashLength = 64;
/** Bytes of a record in addition to its text: the hash, the space after it, and the line feed. */
export const linkBytes = hashLength + 2;
const lineFeed = 0x0a;
const blank = 0x20;

/** Hash-links lines to the record at `after`; `last` is the position of the last line. */
export function writeBlock(
  after: SpoolPosition,
  lines: readonly Line[],
): { readonly block: Block; readonly last: SpoolPosition } {
  const size = lines.reduce((sum, { bytes }) => sum + linkBytes + bytes, 0);
  const bytes = Buffer.allocUnsafe(size);
  const ends: number[] = [];
  let last = after;
  let begin = 0;
  for (const line of lines) {
    const end = begin + linkBytes + line.bytes;
    const isAscii = line.bytes === line.text.length;
    bytes.write(line.text, begin + hashLength + 1, isAscii ? 'latin1' : 'utf8');
    bytes[end - 1] = lineFeed;
    last = { record: last.record + 1, hash: linkIn(bytes, { begin, end }, last.hash) };
    bytes.write(last.hash, begin, 'latin1');
    bytes[begin + hashLength] = blank;
    ends.push(end);
    begin = end;
  }
  return { block: { first: after.record + 1, bytes, ends }, last };
}

/** The range of the record with this number in a block. */
export function placeIn({ first, ends }: Block, record: number): Place {
  return { begin: ends[record - first - 1] ?? 0, end: ends[record - first] ?? 0 };
}

/** The ranges of complete records, `recordsMax` at most. */
export function placesIn(bytes: Buffer, recordsMax: number): Place[] {
  const places: Place[] = [];
  let begin = 0;
  while (places.length < recordsMax) {
    const end = bytes.indexOf(lineFeed, begin) + 1;
    if (end === 0) break;
    places.push({ begin, end });
    begin = end;
  }
  return places;
}

/** The hash that is written at a place. */
export function hashIn(bytes: Buffer, { begin }: Place): string {
  return bytes.toString('latin1', begin, begin + hashLength);
}

/** The line at a place, with its line feed; a view and not a copy. */
export function lineIn(bytes: Buffer, { begin, end }: Place): Buffer {
  return bytes.subarray(Math.min(begin + hashLength + 1, end), end);
}

/**
 * The hash that a record must have if it follows `previous` (see `spoolLinkHash`). Computed in
 * place: `previous` overwrites the record's own hash.
 */
export function linkIn(bytes: Buffer, { begin, end }: Place, previous: string): string {
  if (end - begin < linkBytes) return '';
  bytes.write(previous, begin, 'latin1');
  bytes[begin + hashLength] = lineFeed;
  return hash('sha256', bytes.subarray(begin, end - 1), 'hex');
}
