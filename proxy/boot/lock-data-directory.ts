import { SettingsError } from '../../shared/base/settings.ts';
import { lockFolder } from '../../shared/disk/folder-lock.ts';

/** Locks the sidecar's data directory for this process; returns a function that releases it. */
export function lockDataDirectory(folder: string): () => void {
  const lock = lockFolder(folder, 'sidecar');
  if (lock.status === 'locked') return lock.release;
  const { cause } = lock;
  if (lock.status === 'damaged') throw new SettingsError(lock.problem, { cause });
  throw new SettingsError(
    `Another sidecar (process ${lock.holder}) runs on ${folder}: give each its own SALLYPORT_DATA_DIR.`,
    { cause },
  );
}
