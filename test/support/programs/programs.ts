import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Returns the path of the first of these programs on the PATH. If there is none, installs the
 * Debian package that contains it, which requires root. For any other user, throws an error that
 * names the package.
 */
export async function findProgram(
  names: readonly [string, ...string[]],
  debianPackage: string = names[0],
): Promise<string> {
  const [found] = await findPrograms(names);
  if (found !== undefined) return found;
  await installPackages([debianPackage]);
  const [installed] = await findPrograms(names);
  if (installed !== undefined) return installed;
  throw new Error(
    `These tests need ${names.join(' or ')} on the PATH. On Debian: apt-get install ${debianPackage}.`,
  );
}

/** Installs Debian packages if the user is root; otherwise does nothing. */
export async function installPackages(packages: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return;
  // Test files that run at the same time may install packages, and apt does not wait for its lock.
  const lock = join(tmpdir(), 'sallyport-tests-apt');
  await run('flock', [lock, 'apt-get', 'update']);
  await run('flock', [lock, 'apt-get', 'install', '-y', '--no-install-recommends', ...packages]);
}

/** Returns all executables with these names on the PATH: by name, then in the order of the PATH. */
export async function findPrograms(names: readonly string[]): Promise<string[]> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const found: string[] = [];
  for (const path of names.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    await access(path, constants.X_OK).then(
      () => found.push(path),
      () => {},
    );
  }
  return found;
}
