import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DefaultTheme } from 'vitepress';

type SidebarItem = DefaultTheme.SidebarItem;

const parts = [
  ['tutorials', 'Tutorial'],
  ['how-to', 'How-to guides'],
  ['reference', 'Reference'],
  ['explanation', 'Explanation'],
] as const;

/** Every page of the four parts, in the order of the index; a page that the index lacks comes last. */
export function partsSidebar(docs: string): SidebarItem[] {
  const index = readFileSync(join(docs, 'README.md'), 'utf8');
  const place = (path: string) => {
    const found = index.indexOf(`](${path})`);
    return found < 0 ? Number.POSITIVE_INFINITY : found;
  };
  return parts.map(([folder, text]) => ({
    text,
    items: readdirSync(join(docs, folder))
      .map((name) => `${folder}/${name}`)
      .sort((one, other) => place(one) - place(other))
      .map((path) => ({ text: titleOf(join(docs, path)), link: linkTo(path) })),
  }));
}

/** The decision records by area, as their index groups them. */
export function decisionsSidebar(docs: string): SidebarItem[] {
  const index = readFileSync(join(docs, 'decisions/README.md'), 'utf8');
  const [, ...areas] = index.split(/^## /m);
  return [
    { text: 'All decision records', link: '/decisions/' },
    ...areas.map((area) => ({
      text: area.slice(0, area.indexOf('\n')),
      collapsed: true,
      items: [...area.matchAll(/\| (\d{4}) \| \[(.+?)\]\((.+?)\)/g)].map(
        ([, number, title = '', path = '']) => ({
          text: `${number} ${plain(title)}`,
          link: linkTo(`decisions/${path}`),
        }),
      ),
    })),
  ];
}

function titleOf(file: string): string {
  const title = /^# (.+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
  if (title === undefined) throw new Error(`${file} has no title: begin it with "# Title".`);
  return plain(title);
}

function plain(title: string): string {
  return title.replaceAll('`', '');
}

function linkTo(path: string): string {
  return `/${path.replace(/\.md$/, '')}`;
}
