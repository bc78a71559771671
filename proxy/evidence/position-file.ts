import fs from 'node:fs';
import { join } from 'node:path';
import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';
import type { Log } from '../../shared/log.ts';

const fileName = 'acked.json';

/**
 * The position up to which everything is sealed, as a former process left it. Undefined when
 * there is none that can be read: then more is uploaded again than need be, and nothing is lost.
 */
export function loadPosition(folder: string, log: Log): SpoolPosition | undefined {
  try {
    const stored: unknown = JSON.parse(fs.readFileSync(join(folder, fileName), 'utf8'));
    if (isPosition(stored)) return stored;
    log.error({}, 'the acknowledged position on disk cannot be used');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      log.error({ err: error }, 'the acknowledged position on disk cannot be used');
    }
  }
  return undefined;
}

function isPosition(value: unknown): value is SpoolPosition {
  if (typeof value !== 'object' || value === null) return false;
  const { record, hash } = value as Record<string, unknown>;
  return Number.isSafeInteger(record) && Number(record) >= 0 && /^[0-9a-f]{64}$/.test(String(hash));
}

/** Replaces it; with `fsync` it is on the disk before this returns. */
export function storePosition(folder: string, position: SpoolPosition, fsync: boolean): void {
  const path = join(folder, fileName);
  fs.writeFileSync(`${path}.new`, JSON.stringify(position), { mode: 0o600, flush: fsync });
  fs.renameSync(`${path}.new`, path);
}
