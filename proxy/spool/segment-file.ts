import fs from 'node:fs';
import { join } from 'node:path';

/** Opens a segment's file; creates it if it is missing. */
export function openSegment(
  { folder, fsync }: { readonly folder: string; readonly fsync: boolean },
  name: string,
): number {
  const fd = fs.openSync(join(folder, name), fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
  if (fsync) syncFolder(folder);
  return fd;
}

/** Syncs a folder. Without this, a loss of power may remove a new file with all its records. */
function syncFolder(folder: string): void {
  const fd = fs.openSync(folder, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Writes all bytes at `position`; after a failure, the file has its previous length. */
export function writeWhole(fd: number, bytes: Buffer, position: number): void {
  let done = 0;
  try {
    while (done < bytes.length)
      done += fs.writeSync(fd, bytes, done, bytes.length - done, position + done);
  } catch (error) {
    fs.ftruncateSync(fd, position);
    throw error;
  }
}

/**
 * Truncates a file. If this fails, the next record overwrites the surplus bytes; until then, the
 * reader skips them.
 */
export function truncate(fd: number, bytes: number): void {
  try {
    fs.ftruncateSync(fd, bytes);
  } catch {
    // A disk that failed to write may also fail to truncate.
  }
}

/** Resolves when the written data is on the disk. */
export function datasync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}
