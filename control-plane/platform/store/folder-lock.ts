import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreError } from './store-error.ts';

interface FolderLock {
  release(): void;
}

/**
 * Takes the data directory for this process alone, or throws a `StoreError` that names who has
 * it. The lock is one of the operating system, reached through SQLite: it ends with its process,
 * however that ends, so there is no stale lock to judge, and no process id that another program
 * has come to bear. `postgres.pid` beside it is for the error message.
 */
export function lockFolder(dataDir: string): FolderLock {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const pidFile = join(dataDir, 'postgres.pid');
  const database = new DatabaseSync(join(dataDir, 'postgres.lock'));
  try {
    database.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    throw new StoreError(
      `The data directory ${dataDir} is in use by another Sallyport (process ${holder(pidFile)}). ` +
        'Stop that one, or set SALLYPORT_DATA_DIR to another directory.',
      { cause },
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return { release: () => database.close() };
}

function holder(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
