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
 * Removes the data of a former sidecar from the data directory. That sidecar was revoked, so its
 * unsent records cannot be uploaded; they are kept in a separate folder.
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
