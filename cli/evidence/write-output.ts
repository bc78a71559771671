import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { SettingsError } from '../../shared/base/settings.ts';

/** Writes to a file, or to standard output. The file appears only when it is complete. */
export async function writeOutput(
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
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SettingsError(`Cannot write ${path}: ${reason}`, { cause });
  }
}
