import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A separate file system that is small enough to be filled. */
export interface SmallDisk {
  readonly folder: string;
  /** Fills the free space except for `bytes` bytes. */
  fill(bytes?: number): void;
  /** Uses up all free inodes, so that no more files can be created. */
  takeInodes(): void;
  /** Frees the space and the inodes that were used up. */
  free(): void;
  /** Makes a folder on the disk read-only. Returns a function that makes it writable again. */
  freeze(folder: string): () => void;
  close(): void;
}

/**
 * Mounts a file system in memory. This requires root and CAP_SYS_ADMIN; without them, throws an
 * error that says so.
 */
export function smallDisk({ megabytes = 4, inodes = 200 } = {}): SmallDisk {
  const folder = fs.mkdtempSync(join(tmpdir(), 'small-disk-'));
  mount('-t', 'tmpfs', '-o', `size=${megabytes}m,nr_inodes=${inodes},mode=700`, 'tmpfs', folder);
  const ballast = join(folder, 'ballast');
  return {
    folder,
    fill(bytes = 0) {
      const { bavail, bsize } = fs.statfsSync(folder);
      writeUntilFull(ballast, bytes === 0 ? Number.POSITIVE_INFINITY : bavail * bsize - bytes);
    },
    takeInodes() {
      fs.mkdirSync(`${ballast}-files`);
      for (let n = 0; makes(join(`${ballast}-files`, String(n))); n++);
    },
    free() {
      fs.rmSync(ballast, { force: true });
      fs.rmSync(`${ballast}-files`, { recursive: true, force: true });
    },
    freeze(path) {
      mount('--bind', path, path);
      mount('-o', 'remount,bind,ro', path);
      return () => execFileSync('umount', [path]);
    },
    close() {
      execFileSync('umount', ['--lazy', folder]);
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

function mount(...args: readonly string[]): void {
  try {
    execFileSync('mount', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (cause) {
    throw new Error(
      'A test needs a small disk of its own: run it as root with CAP_SYS_ADMIN ' +
        '(docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined).',
      { cause },
    );
  }
}

function writeUntilFull(path: string, bytesMax: number): void {
  const fd = fs.openSync(path, 'a');
  const chunk = Buffer.alloc(4096);
  try {
    for (let bytes = 0; bytes + chunk.length <= bytesMax; bytes += chunk.length) {
      fs.writeSync(fd, chunk);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    fs.closeSync(fd);
  }
}

function makes(path: string): boolean {
  try {
    fs.writeFileSync(path, '');
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    return false;
  }
}
