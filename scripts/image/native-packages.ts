import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { nativePackages } from '../bundle/programs.ts';
import type { Architecture } from './debian.ts';
import { Failure } from './failure.ts';
import { packageArchive } from './npm-package.ts';

const repository = join(import.meta.dirname, '../..');

/**
 * Writes the native packages of an architecture to `folder`, as npm would install them, because npm
 * itself installs only those of this machine. Version and integrity are those of the lockfile.
 */
export function addNativePackages(
  folder: string,
  { architecture, cache }: { readonly architecture: Architecture; readonly cache: string },
): void {
  const lockfile = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8'));
  for (const name of Object.keys(nativePackages[architecture])) {
    const locked = lockfile.packages[`node_modules/${name}`];
    if (locked === undefined) throw new Failure(`package-lock.json does not contain ${name}.`);
    const { version, integrity } = locked as { version: string; integrity: string };
    const archive = packageArchive({ name, version, integrity }, cache);
    const into = join(folder, name);
    mkdirSync(into, { recursive: true });
    const options = ['--extract', '--gzip', '--strip-components=1', '--directory', into];
    execFileSync('tar', [...options, '--file', archive]);
  }
}
