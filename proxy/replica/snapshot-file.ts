import { open, readFile, rename } from 'node:fs/promises';
import { z } from 'zod';
import type { Log } from '../../shared/base/log.ts';

/** Signed texts only: what is read back is verified like what comes over the bus. */
export interface Snapshot {
  /** The last heartbeat: its sequence must not be undercut after a restart. */
  readonly heartbeat?: string | undefined;
  readonly sections: Readonly<Record<string, string>>;
}

const schema = z.object({
  heartbeat: z.string().optional(),
  sections: z.record(z.string(), z.string()),
});

export interface SnapshotFile {
  /** The snapshot of a former run; undefined when there is none that can be read. */
  read(): Promise<Snapshot | undefined>;
  /** Writes soon, and the latest only; a failure is logged and the file before it stays. */
  save(take: () => Snapshot): void;
  /** Resolves when all that was saved is written. */
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
