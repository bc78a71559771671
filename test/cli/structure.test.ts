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

it('no folder imports a file of the root, and no folders import each other in a circle', () => {
  expect(imports.length).toBeGreaterThan(100);
  expect(imports.filter(({ to }) => dirname(to) === '.')).toEqual([]);
  const edges = imports.map(({ from, to }) => [dirname(from), dirname(to)] as const);
  const reaches = (start: string, goal: string, seen = new Set<string>()): boolean => {
    if (seen.has(start)) return false;
    seen.add(start);
    return edges.some(
      ([from, to]) => from === start && to !== from && (to === goal || reaches(to, goal, seen)),
    );
  };
  const folders = [...new Set(edges.flat())];
  expect(folders.filter((folder) => reaches(folder, folder))).toEqual([]);
});

it('declarations import the modules that execute commands only when a command runs', () => {
  const eager = imports.filter(
    ({ from, to, isLazy }) =>
      dirname(from) === 'commands' && !isLazy && !/^(commands|support)\//.test(to),
  );
  expect(eager).toEqual([]);
});
