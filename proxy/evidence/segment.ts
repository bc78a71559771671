import fs from 'node:fs';
import { join } from 'node:path';

/** A spool file. Its name holds the number of its first record. */
export interface Segment {
  readonly name: string;
  readonly firstRecord: number;
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

const nameForm = /^segment-(\d{16})\.ndjson$/;
const hashLength = 64;

export function segmentName(firstRecord: number): string {
  return `segment-${String(firstRecord).padStart(16, '0')}.ndjson`;
}

/** The segments in a folder, oldest first. */
export function segmentsIn(folder: string): Segment[] {
  return fs
    .readdirSync(folder)
    .sort()
    .flatMap((name) => {
      const number = nameForm.exec(name)?.[1];
      if (number === undefined) return [];
      return [{ name, firstRecord: Number(number), bytes: fs.statSync(join(folder, name)).size }];
    });
}

/** A place in a segment: the next record there, and the offset at which it begins. */
export interface SegmentPlace {
  readonly record: number;
  readonly offset: number;
}

/** The whole records of a segment from a place on, in order; a torn end is left out. */
export function* readSegment(
  folder: string,
  segment: Segment,
  from: SegmentPlace = { record: segment.firstRecord, offset: 0 },
  bytesMax = segment.bytes,
): Generator<SegmentEntry> {
  const bytes = readBytes(join(folder, segment.name), from.offset, bytesMax);
  let { record } = from;
  let begin = 0;
  for (let end = bytes.indexOf(10, begin); end !== -1; end = bytes.indexOf(10, begin)) {
    const hash = bytes.toString('latin1', begin, begin + hashLength);
    const line = bytes.toString('utf8', begin + hashLength + 1, end);
    yield { record, hash, line, endsAt: from.offset + end + 1 };
    record += 1;
    begin = end + 1;
  }
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
