import fs from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../shared/base/log.ts';
import { recover } from '../spool/recover.ts';

interface FormerSidecar {
  readonly dataDir: string;
  /** Undefined if the stored enrolment is missing or damaged. */
  readonly sidecarId: string | undefined;
  readonly log: Log;
}

/**
 * Empties the data directory of what belongs to a former sidecar. Its unsent records cannot be
 * uploaded, because it was revoked; they are kept in a folder of their own.
 */
export function setAsideRecords({ dataDir, sidecarId, log }: FormerSidecar): void {
  fs.rmSync(join(dataDir, 'snapshot.json'), { force: true });
  const folder = join(dataDir, 'spool');
  if (!fs.existsSync(folder)) return;
  const { written, acked } = recover({ folder, log });
  const unsent = written.record - acked.record;
  if (unsent <= 0) {
    fs.rmSync(folder, { recursive: true });
    return;
  }
  const kept = join(dataDir, `spool-of-${sidecarId ?? 'unknown'}-${Date.now()}`);
  fs.renameSync(folder, kept);
  log.error(
    { unsent, folder: kept },
    'records of the revoked sidecar were not uploaded and are kept',
  );
}
