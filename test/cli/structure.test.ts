import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../cli');

interface Import {
  readonly from: string;
  readonly to: string;
  readonly isLazy: boolean;
}

const importForm = /(import\(\s*|from\s+|^import\s+)'(\.[^']+)'/gm;

/** The imports within cli/, by file. */
const imports: readonly Import[] = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .flatMap((from) =>
    [...readFileSync(join(root, from), 'utf8').matchAll(importForm)].map(([, form, target]) => ({
      from,
      to: relative(root, resolve(root, dirname(from), target ?? '')),
      isLazy: form?.startsWith('import(') === true,
    })),
  )
  .filter(({ to }) => !to.startsWith('..'));

it('no file of cli/ imports a file in the root of cli/', () => {
  expect(imports.length).toBeGreaterThan(100);
  expect(imports.filter(({ to }) => dirname(to) === '.')).toEqual([]);
});

it('command declarations import the modules that execute commands only when a command runs', () => {
  const eager = imports.filter(
    ({ from, to, isLazy }) =>
      dirname(from) === 'commands' && !isLazy && !/^(commands|support)\//.test(to),
  );
  expect(eager).toEqual([]);
});
