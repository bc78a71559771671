import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { SettingsError } from '../../shared/base/settings.ts';
import type { ExportFile } from '../../shared/ledger/bundle/read.ts';

const partBytes = 1 << 20;

/** An export on disk, read a part at a time. */
export async function openExport(path: string): Promise<ExportFile & { close(): Promise<void> }> {
  const file = await open(path, 'r').catch((cause: unknown) => {
    throw new SettingsError(`The file cannot be read: ${path}`, { cause });
  });
  const stat = await file.stat();
  if (!stat.isFile()) {
    await file.close();
    throw new SettingsError(`This is not a file: ${path}. Verifying reads it more than once.`);
  }
  const read = async (start: number, end: number) => {
    const bytes = Buffer.alloc(Math.max(0, end - start));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
    return bytes.subarray(0, bytesRead);
  };
  return {
    size: stat.size,
    read,
    async *parts(end) {
      for (let at = 0; at < end; ) {
        const part = await read(at, Math.min(at + partBytes, end));
        if (part.length === 0) return;
        yield part;
        at += part.length;
      }
    },
    close: () => file.close(),
  };
}

/** A small file that an option names. */
export function readNamed(option: string, path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (cause) {
    throw new SettingsError(`${option} names a file that cannot be read: ${path}`, { cause });
  }
}
