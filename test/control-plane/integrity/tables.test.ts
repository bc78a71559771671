import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { signedTables } from '../../../control-plane/platform/store/signed-columns.ts';

const root = resolve(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(resolve(root, path), 'utf8');

/** The rows of the README's table: the database tables in its first column, and the texts in the others. */
const documented = read('control-plane/integrity/README.md')
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  .map(([names = '', ...says]) => ({
    tables: [...names.matchAll(/`([a-z_]+)`/g)].map(([, name = '']) => name),
    says,
  }));

it('the README states for every table the effect of a forged write and of a deletion', () => {
  const tables = [...read('prisma/schema.prisma').matchAll(/@@map\("([a-z_]+)"\)/g)]
    .map(([, name = '']) => name)
    .sort();
  expect(tables.length).toBeGreaterThan(40);
  expect(documented.flatMap(({ tables: named }) => named).sort()).toEqual(tables);
  for (const { says } of documented) {
    expect(says).toHaveLength(2);
    for (const text of says) expect(text).not.toBe('');
  }
});

it('the README marks every signed table as signed', () => {
  for (const table of signedTables) {
    const row = documented.find(({ tables }) => tables.includes(table));
    expect([table, row?.says[0]]).toEqual([table, expect.stringMatching(/^signed/)]);
  }
});
