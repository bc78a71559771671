import fs from 'node:fs';
import { join } from 'node:path';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import { hashIn, type Place, placesIn } from './block.ts';

/** A spool file. Its name states the position that its first record follows. */
export interface Segment {
  readonly name: string;
  readonly after: SpoolPosition;
  readonly bytes: number;
}

export interface SegmentEntry {
  readonly record: number;
  readonly hash: string;
  /** The record's range in the bytes that were read. */
  readonly place: Place;
  /** Offset in the file just after this record. */
  readonly endsAt: number;
}

const nameForm = /^segment-(\d{16})-([0-9a-f]{64})\.ndjson$/;

export function segmentName({ record, hash }: SpoolPosition): string {
  return `segment-${String(record + 1).padStart(16, '0')}-${hash}.ndjson`;
}

/** The segments in a folder, oldest first. */
export function segmentsIn(folder: string): Segment[] {
  return fs
    .readdirSync(folder)
    .sort()
    .flatMap((name) => {
      const [, first, hash] = nameForm.exec(name) ?? [];
      if (first === undefined || hash === undefined) return [];
      const after = { record: Number(first) - 1, hash };
      return [{ name, after, bytes: fs.statSync(join(folder, name)).size }];
    });
}

/**
 * A place in a segment: the number of the next record, and the offset at which the record begins.
 */
export interface SegmentPlace {
  readonly record: number;
  readonly offset: number;
}

interface SegmentPart {
  readonly bytes: Buffer;
  readonly entries: readonly SegmentEntry[];
  readonly reachesEnd: boolean;
}

/**
 * Reads the complete records of a segment, in order, beginning at `from`. Skips an incomplete last
 * record.
 */
export function readSegment(
  folder: string,
  segment: Segment,
  from: SegmentPlace = { record: segment.after.record + 1, offset: 0 },
  { bytesMax = segment.bytes, recordsMax = Number.POSITIVE_INFINITY }: Partial<ReadBounds> = {},
): SegmentPart {
  const bytes = readBytes(join(folder, segment.name), from.offset, bytesMax);
  const entries = placesIn(bytes, recordsMax).map((place, index) => ({
    record: from.record + index,
    hash: hashIn(bytes, place),
    place,
    endsAt: from.offset + place.end,
  }));
  const isWhole = entries.length < recordsMax;
  return { bytes, entries, reachesEnd: isWhole && from.offset + bytes.length >= segment.bytes };
}

interface ReadBounds {
  readonly bytesMax: number;
  readonly recordsMax: number;
}

function readBytes(path: string, offset: number, bytesMax: number): Buffer {
  const fd = fs.openSync(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(bytesMax);
    return buffer.subarray(0, fs.readSync(fd, buffer, 0, bytesMax, offset));
  } finally {
    fs.closeSync(fd);
  }
}
