import fs from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const folders = ['charts', 'cli', 'control-plane', 'deploy', 'docs', 'examples', 'injector'];
const files = [...folders, 'prisma', 'proxy', 'scripts', 'shared', 'test']
  .flatMap((folder) =>
    fs
      .readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(folder, name)),
  )
  .filter((path) => !/node_modules|\.vitepress/.test(path));

/** Decisions and the changelog describe earlier states, whose files may not exist any more. */
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...files.filter((path) => path.endsWith('.md') && !path.startsWith('docs/decisions/')),
];
/**
 * Names of files that are not source files: files that the reader of a page creates, and suffixes
 * that stand for any file.
 */
const noSource = ['tutorial/refunds-api.mjs', '.test.ts'];

function read(page: string): string {
  return fs.readFileSync(join(root, page), 'utf8');
}

it('the checks read pages of every part of the repository', () => {
  expect(pages.length).toBeGreaterThan(50);
});

it('pages name only source files that exist', () => {
  const missing = pages.flatMap((page) =>
    [...read(page).matchAll(/`([\w./-]+\.(?:ts|mjs|cjs))`/g)]
      .map(([, name = '']) => name)
      .filter((name) => !noSource.includes(name))
      .filter((name) => {
        const beside = normalize(join(dirname(page), name));
        return !files.some((path) => path === beside || path === name || path.endsWith(`/${name}`));
      })
      .map((name) => `${page}: ${name}`),
  );
  expect(missing).toEqual([]);
});

it('pages link only to files that exist', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => !fs.existsSync(join(root, dirname(page), target)))
      .map((target) => `${page}: ${target}`),
  );
  expect(broken).toEqual([]);
});

it('the failure modes page names only tests that exist', () => {
  const rows = read('docs/explanation/failure-modes.md').split('\n').slice(1);
  const cells = rows.filter((row) => row.startsWith('|')).map((row) => row.split('|').at(-2) ?? '');
  const names = cells.flatMap((cell) => [...cell.matchAll(/`([\w/-]+)`/g)].map(([, name]) => name));
  expect(names.length).toBeGreaterThan(20);
  // A name that ends with a slash is a folder of tests.
  const exists = (name = '') =>
    name.endsWith('/')
      ? files.some((path) => path.startsWith(`test/${name}`))
      : ['test', 'system.test'].some((kind) => files.includes(`test/${name}.${kind}.ts`));
  expect(names.filter((name) => !exists(name))).toEqual([]);
});
