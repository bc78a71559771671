// Writes the pages of docs/reference/ that are generated from the code.
import { writeFileSync } from 'node:fs';
import { referencePages } from './reference-pages.ts';

for (const [name, content] of Object.entries(await referencePages())) {
  writeFileSync(new URL(`../docs/reference/${name}`, import.meta.url), content);
}
