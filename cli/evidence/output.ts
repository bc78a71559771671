import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { SettingsError } from '../../shared/base/settings.ts';

export const outputOption = { output: { type: 'string', short: 'o' } } as const;

/** Writes what comes to a file, or to standard output. The file is there when all of it came. */
export async function deliver(
  parts: AsyncIterable<Uint8Array>,
  path: string | undefined,
): Promise<void> {
  if (path === undefined) {
    await pipeline(Readable.from(parts), process.stdout, { end: false });
    return;
  }
  const draft = `${path}.part`;
  try {
    await pipeline(Readable.from(parts), createWriteStream(draft, { mode: 0o600 }));
    await rename(draft, path);
  } catch (cause) {
    await rm(draft, { force: true });
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(`${path} was not written: ${why}`, { cause });
  }
}
