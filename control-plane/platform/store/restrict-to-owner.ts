import fs from 'node:fs';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { describeFileError } from '../../../shared/base/file-error.ts';
import { StoreError } from './store-error.ts';

const folderMode = 0o700;
const fileMode = 0o600;

/**
 * Makes a data directory accessible to its owner only, and sets the umask for files that this
 * process creates. Throws a `StoreError` for symbolic links and for files of other users, because
 * another user could have planted them or could still have access to them. `ssh` does the same.
 */
export function restrictToOwner(dataDir: string): void {
  if (isMainThread) process.umask(0o077);
  try {
    fs.mkdirSync(dataDir, { recursive: true, mode: folderMode });
  } catch (cause) {
    const problem = describeFileError(cause, dataDir);
    if (problem === undefined) throw cause;
    throw new StoreError(
      `The data directory: ${problem} Or set SALLYPORT_DATA_DIR to another directory.`,
      { cause },
    );
  }
  // Follows a link here: the operator may make the directory itself a link. Links inside it are
  // refused.
  own(fs.realpathSync(dataDir));
}

/**
 * Restricts a folder before its content, so that no other user can replace the content meanwhile.
 */
function own(path: string): void {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (stat.isSymbolicLink()) {
    throw new StoreError(
      `The data directory contains the symbolic link ${path}. Remove it, or set SALLYPORT_DATA_DIR to another directory.`,
    );
  }
  const uid = process.getuid?.();
  if (uid !== undefined && stat.uid !== uid) {
    throw new StoreError(
      `${path} in the data directory belongs to user ${stat.uid}, and this process runs as user ${uid}. ` +
        'Change its owner with chown, or set SALLYPORT_DATA_DIR to another directory.',
    );
  }
  const mode = stat.isDirectory() ? folderMode : fileMode;
  if ((stat.mode & 0o777) !== mode) fs.chmodSync(path, mode);
  if (!stat.isDirectory()) return;
  for (const name of fs.readdirSync(path)) own(join(path, name));
}
