import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * The path of the first of these programs that is on the PATH. Where none is, root installs the
 * Debian package that holds it; anybody else is told to.
 */
export async function findProgram(
  names: readonly [string, ...string[]],
  debianPackage: string = names[0],
): Promise<string> {
  const found = await onPath(names);
  if (found !== undefined) return found;
  if (process.getuid?.() === 0) {
    await run('apt-get', ['update']);
    await run('apt-get', ['install', '-y', '--no-install-recommends', debianPackage]);
    const installed = await onPath(names);
    if (installed !== undefined) return installed;
  }
  throw new Error(
    `These tests need ${names.join(' or ')} on the PATH. On Debian: apt-get install ${debianPackage}.`,
  );
}

async function onPath(names: readonly string[]): Promise<string | undefined> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  for (const path of names.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    const isExecutable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isExecutable) return path;
  }
  return undefined;
}
