import { open, readFile, rename } from 'node:fs/promises';
import { z } from 'zod';
import type { Log } from '../../shared/base/log.ts';

/** Contains signed sections only, which are verified again when they are loaded. */
export interface Snapshot {
  /** The last heartbeat, so that older heartbeats are still refused after a restart. */
  readonly heartbeat?: string | undefined;
  readonly sections: Readonly<Record<string, string>>;
}

const schema = z.object({
  heartbeat: z.string().optional(),
  sections: z.record(z.string(), z.string()),
});

export interface SnapshotFile {
  /** The snapshot of an earlier run; undefined if there is no readable one. */
  read(): Promise<Snapshot | undefined>;
  /**
   * Schedules a write of the latest snapshot. A failure is logged, and the previous file remains.
   */
  save(take: () => Snapshot): void;
  /** Resolves when all saved snapshots are written. */
  flush(): Promise<void>;
}

/** Keeps snapshots in one file, mode 0600, replaced as a whole. */
export function snapshotFile(path: string, log: Log): SnapshotFile {
  let waiting: (() => Snapshot) | undefined;
  let writing: Promise<void> = Promise.resolve();

  const writeWaiting = async () => {
    const take = waiting;
    if (take === undefined) return;
    waiting = undefined;
    await replaceFile(path, JSON.stringify(take())).catch((error) => {
      log.error({ error }, 'the snapshot could not be written');
    });
  };

  return {
    async read() {
      try {
        return schema.parse(JSON.parse(await readFile(path, 'utf8')));
      } catch (error) {
        const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
        if (!missing) log.warn({ err: error }, 'the snapshot on disk cannot be used');
        return undefined;
      }
    },
    save(take) {
      const idle = waiting === undefined;
      waiting = take;
      if (idle) writing = writing.then(writeWaiting);
    },
    flush: () => writing,
  };
}

async function replaceFile(path: string, text: string): Promise<void> {
  const beside = `${path}.new`;
  const file = await open(beside, 'w', 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(beside, path);
}
