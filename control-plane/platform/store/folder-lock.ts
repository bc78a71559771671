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
  const lockFile = join(dataDir, 'postgres.lock');
  const database = openLock(lockFile);
  try {
    database.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    if (errorCodeOf(cause) !== sqliteBusy) throw damaged(lockFile, cause);
    throw new StoreError(
      `The data directory ${dataDir} is in use by another Sallyport (process ${holder(pidFile)}). ` +
        'Stop that one, or set SALLYPORT_DATA_DIR to another directory.',
      { cause },
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return { release: () => database.close() };
}

/** SQLITE_BUSY: another process has the lock. */
const sqliteBusy = 5;

function errorCodeOf(cause: unknown): unknown {
  return cause instanceof Error && 'errcode' in cause ? cause.errcode : undefined;
}

function openLock(path: string): DatabaseSync {
  try {
    return new DatabaseSync(path);
  } catch (cause) {
    throw damaged(path, cause);
  }
}

function damaged(path: string, cause: unknown): StoreError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StoreError(
    `The lock of the data directory, ${path}, cannot be used: ${reason}. Stop every Sallyport on it, then remove ${path}; it holds no data.`,
    { cause },
  );
}

function holder(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
