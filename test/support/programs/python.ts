import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from './cached.ts';
import { findPrograms, installPackages } from './programs.ts';

const run = promisify(execFile);

/**
 * Returns the path of a Python that has only the packages of a requirements file. Its environment
 * is created once and cached.
 */
export async function pythonWith(requirements: string): Promise<string> {
  const { path, identity } = await findPython();
  const folder = await cachedFolder(
    'python',
    [await readFile(requirements, 'utf8'), identity],
    async (draft) => {
      await run(path, ['-m', 'venv', draft]);
      const pip = ['-m', 'pip', '--disable-pip-version-check', 'install', '--quiet'];
      const options = ['--only-binary', ':all:', '--requirement', requirements];
      await run(join(draft, 'bin/python'), [...pip, ...options]);
    },
  );
  return join(folder, 'bin/python');
}

interface Python {
  readonly path: string;
  /** Identifies the Python, so that cached environments are not used with a different one. */
  readonly identity: string;
}

const probe = `import sys, venv, ensurepip
assert sys.version_info >= (3, 10)
print(sys.version, sys.base_prefix)`;

async function findPython(): Promise<Python> {
  const found = await usablePython();
  if (found !== undefined) return found;
  await installPackages(['python3', 'python3-venv']);
  const installed = await usablePython();
  if (installed !== undefined) return installed;
  throw new Error(
    'These tests need Python 3.10 or newer with venv on the PATH. On Debian: apt-get install python3 python3-venv.',
  );
}

async function usablePython(): Promise<Python | undefined> {
  for (const path of await findPrograms(['python3'])) {
    const identity = await run(path, ['-c', probe]).then(
      ({ stdout }) => stdout,
      () => undefined,
    );
    if (identity !== undefined) return { path, identity };
  }
  return undefined;
}
