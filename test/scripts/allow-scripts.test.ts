import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

const read = (name: string) =>
  JSON.parse(readFileSync(resolve(import.meta.dirname, '../..', name), 'utf8')) as unknown;

it('every install script of a package is explicitly allowed or denied', () => {
  const { packages } = read('package-lock.json') as {
    packages: Record<string, { hasInstallScript?: boolean; os?: string[] }>;
  };
  const { allowScripts } = read('package.json') as { allowScripts: Record<string, boolean> };
  const names = Object.entries(packages)
    // The path '' is the root package, whose scripts always run.
    .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript === true)
    .map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
  expect(names.filter((name) => !(name in allowScripts))).toEqual([]);
});
