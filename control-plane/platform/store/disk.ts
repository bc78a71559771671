import { rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskWatch } from '../../../shared/base/disk-watch.ts';
import type { Log } from '../../../shared/base/log.ts';

const probeBytes = Buffer.alloc(65_536);

/** Watches the volume of the data directory, which holds the embedded database. */
export function watchDisk(folder: string, log: Pick<Log, 'warn'>): DiskWatch {
  const file = join(folder, '.disk-probe');
  return new DiskWatch({
    folder,
    log,
    now: () => performance.now(),
    async space() {
      const { bavail, blocks, bsize } = await statfs(folder);
      return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
    },
    async probe() {
      try {
        await writeFile(file, probeBytes, { mode: 0o600 });
      } finally {
        await rm(file, { force: true });
      }
    },
  });
}
