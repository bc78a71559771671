import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import type { Stored } from './create-stored.ts';

export interface Unpacked {
  readonly dataDir: string;
  readonly stored: Stored;
  remove(): void;
}

/** Unpacks a copy of the data directory that an older version left. */
export function unpack(version: string): Unpacked {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-upgrade-'));
  const packed = fs.readFileSync(resolve(import.meta.dirname, `data-of-${version}.tar.br`));
  execFileSync('tar', ['-x', '-C', folder], { input: brotliDecompressSync(packed) });
  return {
    dataDir: join(folder, 'data'),
    stored: JSON.parse(fs.readFileSync(join(folder, 'stored.json'), 'utf8')) as Stored,
    remove: () => fs.rmSync(folder, { recursive: true, force: true }),
  };
}
