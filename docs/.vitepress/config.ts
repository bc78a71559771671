import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { decisionsSidebar, partsSidebar } from './navigation.ts';
import { linksOfSite } from './site-links.ts';

const docs = fileURLToPath(new URL('..', import.meta.url));

/** The documentation site: `npm run docs` builds it into `dist/`. Neither building nor reading it uses a network. */
export default defineConfig({
  title: 'Sallyport',
  description: 'Authorization gateway for the actions of AI agents',
  lang: 'en',
  // A folder's README is its index, here as in the repository.
  rewrites: { 'README.md': 'index.md', ':folder/README.md': ':folder/index.md' },
  markdown: { config: (markdown) => linksOfSite(markdown, docs) },
  themeConfig: {
    nav: [
      { text: 'Tutorial', link: '/tutorials/first-agent', activeMatch: '^/tutorials/' },
      { text: 'How-to', link: '/how-to/connect-agents', activeMatch: '^/how-to/' },
      { text: 'Reference', link: '/reference/settings', activeMatch: '^/reference/' },
      { text: 'Explanation', link: '/explanation/architecture', activeMatch: '^/explanation/' },
      { text: 'Decisions', link: '/decisions/', activeMatch: '^/decisions/' },
    ],
    sidebar: { '/decisions/': decisionsSidebar(docs), '/': partsSidebar(docs) },
    outline: [2, 3],
    search: { provider: 'local' },
  },
});
