import fs from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../shared/base/log.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import { linkIn } from './block.ts';
import { type KeptAcknowledgement, loadPosition } from './position-file.ts';
import { readSegment, type SegmentEntry, segmentsIn } from './segment.ts';

export interface Recovered {
  readonly written: SpoolPosition;
  readonly acked: SpoolPosition;
  readonly ledger: KeptAcknowledgement | undefined;
  readonly storedBytes: number;
}

const start: SpoolPosition = { record: 0, hash: '0'.repeat(64) };

/** Reads the records that an earlier process left, up to the last complete one. */
export function recover({
  folder,
  log,
}: {
  readonly folder: string;
  readonly log: Log;
}): Recovered {
  const segments = segmentsIn(folder);
  const stored = loadPosition(folder, log);
  const acked = later(stored?.position, segments[0]?.after) ?? start;
  let written = acked;
  let storedBytes = 0;
  for (const segment of segments) {
    if (segment.after.record > written.record) written = segment.after;
    const { bytes, entries } = readSegment(folder, segment);
    for (const entry of entries) {
      if (linkBroken(bytes, entry, written)) {
        const { name } = segment;
        log.error({ segment: name, record: entry.record }, 'the evidence spool is damaged');
      }
      if (entry.record > written.record) written = { record: entry.record, hash: entry.hash };
    }
    const path = join(folder, segment.name);
    const wholeBytes = entries.at(-1)?.endsAt ?? 0;
    if (wholeBytes === 0) fs.rmSync(path);
    else if (wholeBytes < segment.bytes) fs.truncateSync(path, wholeBytes);
    storedBytes += wholeBytes;
  }
  return { written: sound(written), acked, ledger: stored?.ledger, storedBytes };
}

/**
 * The later of two positions. Records before the first segment are sealed, because a segment is
 * removed only after its records were sealed.
 */
function later(
  one: SpoolPosition | undefined,
  other: SpoolPosition | undefined,
): SpoolPosition | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return other.record > one.record ? other : one;
}

function linkBroken(
  bytes: Buffer,
  { record, hash, place }: SegmentEntry,
  before: SpoolPosition,
): boolean {
  return record === before.record + 1 && linkIn(bytes, place, before.hash) !== hash;
}

/** Replaces a malformed hash with zeros, because the next record cannot be linked to it. */
export function sound({ record, hash }: SpoolPosition): SpoolPosition {
  return { record, hash: /^[0-9a-f]{64}$/.test(hash) ? hash : start.hash };
}
