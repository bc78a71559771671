import fs from 'node:fs';
import { join } from 'node:path';
import { StoreError } from './store-error.ts';

/**
 * PostgreSQL version of the embedded engine. The engine cannot read the folder of another version.
 */
export const embeddedMajor = '18';
const controlBytes = 8_192;

const restore =
  'Restore the data directory from a backup, or set SALLYPORT_DATA_DIR to another directory to start empty.';

/**
 * Throws a `StoreError` for a database folder that the engine cannot open. If PG_VERSION is
 * missing, the engine would overwrite an existing database with a new one.
 */
export function assertOpenable(folder: string): void {
  const found = problemOf(folder);
  if (found === undefined) return;
  throw new StoreError(`The embedded database in ${folder} cannot be opened: ${found}`);
}

/** Returns the error for a folder that looks intact but that the engine failed to open. */
export function engineProblem(folder: string, cause: unknown): StoreError {
  const reason = cause instanceof Error ? cause.message : JSON.stringify(cause);
  return new StoreError(
    `The embedded database in ${folder} cannot be opened: files in it are damaged or missing (the engine reported: ${reason}). ${restore}`,
    { cause },
  );
}

function problemOf(folder: string): string | undefined {
  const stat = fs.statSync(folder, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  if (!stat.isDirectory()) return `it is a file, and a folder is expected. ${restore}`;
  const version = textOf(join(folder, 'PG_VERSION'));
  const control = fs.statSync(join(folder, 'global', 'pg_control'), { throwIfNoEntry: false });
  if (version === undefined) {
    // Accepts this folder: an interrupted first start had not written any data yet.
    if (control === undefined && !fs.existsSync(join(folder, 'base', '1'))) return undefined;
    return `it has a database, but its file PG_VERSION is missing. ${restore}`;
  }
  if (version !== embeddedMajor) {
    return /^\d+$/.test(version)
      ? `it was made by PostgreSQL ${version}, and this version of Sallyport has PostgreSQL ${embeddedMajor}. Start the version of Sallyport that made it, or set SALLYPORT_DATA_DIR to another directory.`
      : `its file PG_VERSION does not hold a version. ${restore}`;
  }
  if (control?.size !== controlBytes) return `its file global/pg_control is damaged. ${restore}`;
  const missing = ['base', 'pg_wal', 'pg_xact'].find((name) => !fs.existsSync(join(folder, name)));
  return missing === undefined ? undefined : `its folder ${missing} is missing. ${restore}`;
}

/** Returns the content of a file, or undefined if the path is not a file. */
function textOf(path: string): string | undefined {
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true ? fs.readFileSync(path, 'utf8').trim() : undefined;
}
