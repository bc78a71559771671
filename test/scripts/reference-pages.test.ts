import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { referencePages } from '../../scripts/reference-pages.ts';

it.each(Object.entries(await referencePages()))(
  'docs/reference/%s matches the code (npm run reference)',
  (name, content) => {
    const path = new URL(`../../docs/reference/${name}`, import.meta.url);
    expect(readFileSync(path, 'utf8')).toBe(content);
  },
);
