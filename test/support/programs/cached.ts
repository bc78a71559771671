import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const cache = resolve(import.meta.dirname, '../../../node_modules/.cache/sallyport-tests');

/**
 * Creates a folder once for each value of `dependsOn`, and keeps it for later runs. The folder gets
 * its final name when it is complete. If concurrent runs create it, the first one is kept.
 */
export async function cachedFolder(
  name: string,
  dependsOn: readonly string[],
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256').update(dependsOn.join('\0')).digest('hex').slice(0, 16);
  const folder = join(cache, `${name}-${hash}`);
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const draft = await mkdtemp(`${folder}.`);
  try {
    await make(draft);
    await rename(draft, folder).catch((error: Error) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return folder;
}
