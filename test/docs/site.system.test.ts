import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const docs = join(root, 'docs');
// The folder is below node_modules, so that a copy of the configuration finds its packages.
const cache = join(root, 'node_modules/.cache');

const run = promisify(execFile);

function build(source: string, outDir: string) {
  const program = join(root, 'node_modules/vitepress/bin/vitepress.js');
  return run(process.execPath, [program, 'build', source, '--outDir', outDir], { cwd: root });
}

function filesIn(folder: string, ending: string): readonly string[] {
  return fs
    .readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.startsWith('.vitepress'))
    .sort();
}

const htmlOf = (page: string) =>
  page.replace(/README\.md$/, 'index.html').replace(/\.md$/, '.html');
const addressOf = (page: string) => `/${htmlOf(page)}`.replace(/\/index\.html$/, '/');

let folder: string;
let site: string;
beforeAll(async () => {
  fs.mkdirSync(cache, { recursive: true });
  folder = fs.mkdtempSync(join(cache, 'docs-site-'));
  site = join(folder, 'site');
  await build(docs, site);
}, 300_000);
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const read = (name: string) => fs.readFileSync(join(site, name), 'utf8');
const pages = filesIn(docs, '.md');

it('the site has a page for every file of docs/', () => {
  expect(pages.length).toBeGreaterThan(200);
  expect(filesIn(site, '.html')).toEqual([...pages.map(htmlOf), '404.html'].sort());
});

it('the local search index finds every page', () => {
  const [name = ''] = filesIn(join(site, 'assets/chunks'), '.js').filter((file) =>
    file.includes('localSearchIndex'),
  );
  const index = read(join('assets/chunks', name));
  expect(pages.map(addressOf).filter((address) => !index.includes(`"${address}#`))).toEqual([]);
});

it('the navigation lists every page', () => {
  const parts = read('index.html');
  const records = read('decisions/index.html');
  const unlisted = pages
    .map(addressOf)
    .filter((address) => !`${parts}${records}`.includes(`href="${address}"`))
    .filter((address) => !records.includes(`href="./${address.replace('/decisions/', '')}"`));
  expect(unlisted).toEqual([]);
});

it('the site loads scripts, styles and fonts only from its own origin', () => {
  for (const name of filesIn(site, '.html')) {
    for (const [tag] of read(name).matchAll(/<(?:script|link|img)\b[^>]*>/g)) {
      expect(tag, name).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    }
  }
  for (const name of filesIn(site, '.css')) {
    expect(read(name), name).not.toMatch(/(?:url\(|@import)\s*["']?(?:https?:)?\/\//);
  }
});

it('the site links only to headings that exist', () => {
  const dead = filesIn(site, '.html').flatMap((name) =>
    [...read(name).matchAll(/href="([^":]*)#([^"]+)"/g)]
      .map(([, path = '', heading = '']) => ({ target: targetOf(name, path), heading }))
      .filter(({ target, heading }) => !read(target).includes(`id="${decodeURI(heading)}"`))
      .map(({ target, heading }) => `${name}: ${target}#${heading}`),
  );
  expect(dead).toEqual([]);
});

/** Returns the file of the site to which a link on the page `name` leads. */
function targetOf(name: string, path: string): string {
  const { pathname } = new URL(path === '' ? `/${name}` : path, `http://site/${name}`);
  return pathname.endsWith('/') ? `${pathname.slice(1)}index.html` : pathname.slice(1);
}

it.each([
  ['a page of docs/', 'missing.md'],
  ['a file of the repository', '../missing/README.md'],
])('the build fails for a dead link to %s', async (_, link) => {
  const copy = fs.mkdtempSync(join(folder, 'copy-'));
  fs.cpSync(join(docs, '.vitepress'), join(copy, '.vitepress'), {
    recursive: true,
    filter: (path) => !/\.vitepress\/(?:cache|dist)/.test(path),
  });
  for (const part of ['tutorials', 'how-to', 'reference', 'explanation', 'decisions']) {
    fs.mkdirSync(join(copy, part));
  }
  fs.writeFileSync(join(copy, 'decisions/README.md'), '# Decisions\n');
  fs.writeFileSync(join(copy, 'README.md'), `# Documentation\n\n[a link](${link})\n`);
  await expect(build(copy, join(copy, 'site'))).rejects.toThrow(/dead/);
});
