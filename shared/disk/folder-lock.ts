import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A lock that this process holds, or the reason why it does not. */
type LockResult =
  | { readonly status: 'locked'; release(): void }
  /** `holder` is the process id that the holder wrote, or `unknown`. */
  | { readonly status: 'in-use'; readonly holder: string; readonly cause: unknown }
  | { readonly status: 'damaged'; readonly problem: string; readonly cause: unknown };

/**
 * Locks a folder for this process alone, and creates the folder if it is missing. The lock is an
 * operating system lock on the file `<name>.lock`, taken through SQLite. The lock ends with the
 * process, so it cannot become stale. `<name>.pid` holds the process id for the error message.
 */
export function lockFolder(folder: string, name: string): LockResult {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `${name}.lock`);
  const pidFile = join(folder, `${name}.pid`);
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    database.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (cause) {
    database?.close();
    if (isBusy(cause)) return { status: 'in-use', holder: holderIn(pidFile), cause };
    return { status: 'damaged', problem: problemOf(path, cause), cause };
  }
  const held = database;
  nameHolder(pidFile);
  return { status: 'locked', release: () => held.close() };
}

/** SQLITE_BUSY: another process has the lock. */
const sqliteBusy = 5;

function isBusy(cause: unknown): boolean {
  return cause instanceof Error && 'errcode' in cause && cause.errcode === sqliteBusy;
}

function problemOf(path: string, cause: unknown): string {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return `The lock of the data directory, ${path}, cannot be used: ${reason}. Stop every Sallyport on it, then remove ${path}; it holds no data.`;
}

/**
 * Records the process id for error messages. A failure, such as a full disk, does not prevent the
 * lock.
 */
function nameHolder(pidFile: string): void {
  try {
    writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  } catch {
    // The lock is held even if its holder cannot be recorded.
  }
}

function holderIn(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim() || 'unknown';
  } catch {
    return 'unknown';
  }
}
