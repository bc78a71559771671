import fs from 'node:fs';
import { join } from 'node:path';
import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';

/** A spool file. Its name says which position its first record follows. */
export interface Segment {
  readonly name: string;
  readonly after: SpoolPosition;
  readonly bytes: number;
}

export interface SegmentEntry {
  readonly record: number;
  readonly hash: string;
  /** The record's exact text. */
  readonly line: string;
  /** Offset in the file just after this record. */
  readonly endsAt: number;
}

const nameForm = /^segment-(\d{16})-([0-9a-f]{64})\.ndjson$/;
const hashLength = 64;

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

/** A place in a segment: the next record there, and the offset at which it begins. */
export interface SegmentPlace {
  readonly record: number;
  readonly offset: number;
}

/** Whole records of a segment from a place on, in order; a torn end is left out. */
export function readSegment(
  folder: string,
  segment: Segment,
  from: SegmentPlace = { record: segment.after.record + 1, offset: 0 },
  bytesMax = segment.bytes,
): { readonly entries: readonly SegmentEntry[]; readonly reachesEnd: boolean } {
  const bytes = readBytes(join(folder, segment.name), from.offset, bytesMax);
  const entries: SegmentEntry[] = [];
  let begin = 0;
  for (let end = bytes.indexOf(10, begin); end !== -1; end = bytes.indexOf(10, begin)) {
    entries.push({
      record: from.record + entries.length,
      hash: bytes.toString('latin1', begin, begin + hashLength),
      line: bytes.toString('utf8', begin + hashLength + 1, end),
      endsAt: from.offset + end + 1,
    });
    begin = end + 1;
  }
  return { entries, reachesEnd: from.offset + bytes.length >= segment.bytes };
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
