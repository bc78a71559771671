import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { MarkdownRenderer } from 'vitepress';

type Token = ReturnType<MarkdownRenderer['parse']>[number];

/**
 * Links of pages as the site needs them: a README is its folder's index, and a file of the repository
 * outside `docs/` is named instead of linked, because the site does not contain it.
 */
export function linksOfSite(markdown: MarkdownRenderer, docs: string): void {
  markdown.core.ruler.push('links_of_site', ({ tokens, env }) => {
    const page = resolve(docs, (env as { readonly path: string }).path);
    for (const token of tokens) adapt(token.children ?? [], { page, docs });
  });
}

interface Place {
  readonly page: string;
  readonly docs: string;
}

function adapt(tokens: readonly Token[], place: Place): void {
  let isOutside = false;
  for (const token of tokens) {
    if (token.type === 'link_open') isOutside = adaptLink(token, place);
    else if (token.type === 'link_close' && isOutside) token.tag = 'span';
  }
}

/** True if the link leads out of `docs/`. */
function adaptLink(link: Token, { page, docs }: Place): boolean {
  const href = String(link.attrGet('href'));
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return false;
  const [path = '', anchor] = href.split('#');
  const target = resolve(dirname(page), path);
  if (!existsSync(target)) throw new Error(`${page}: the link to ${href} is dead`);
  const inDocs = relative(docs, target);
  if (inDocs.startsWith('..')) {
    link.tag = 'span';
    link.attrs = [['title', `${relative(resolve(docs, '..'), target)} in the repository`]];
    return true;
  }
  const suffix = anchor === undefined ? '' : `#${anchor}`;
  link.attrSet('href', `${path.replace(/README\.md$/, 'index.md')}${suffix}`);
  return false;
}
