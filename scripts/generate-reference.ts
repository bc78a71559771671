// Writes the pages of docs/reference/, and the table of isolation.md, that are generated from the code.
import { readFileSync, writeFileSync } from 'node:fs';
import { isolationPage } from './isolation-page.ts';
import { referencePages } from './reference-pages.ts';

for (const [name, content] of Object.entries(await referencePages())) {
  writeFileSync(new URL(`../docs/reference/${name}`, import.meta.url), content);
}
const isolation = new URL('../docs/explanation/isolation.md', import.meta.url);
writeFileSync(isolation, isolationPage(readFileSync(isolation, 'utf8')));
