import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { bindingOf } from '../../../control-plane/runtime/stored-binding.ts';
import { readColumn } from '../../../control-plane/store/read-column.ts';

const root = resolve(import.meta.dirname, '../../..');
const columns = [
  ...readFileSync(join(root, 'prisma/schema.prisma'), 'utf8').matchAll(/^\s+(\w+)\s+Json\b/gm),
].map(([, name]) => name);

it('no JSON column is cast to a type: each is read by its schema', () => {
  expect(columns).toContain('definition');
  const cast = new RegExp(
    `(?<!JSON\\.parse\\([\\w.]*)\\b(?:${columns.join('|')})\\b(?:\\s*\\?\\?\\s*\\{\\})?\\)*\\s+as\\s+(?:[A-Z{]|unknown|never|string|number)`,
  );
  const folder = join(root, 'control-plane');
  const offenders = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('generated'))
    .flatMap((name) =>
      readFileSync(join(folder, name), 'utf8')
        .split('\n')
        .filter((line) => cast.test(line) && !/^\s*(\/?\*|\/\/|`|select )/.test(line))
        .map((line) => `${name}: ${line.trim()}`),
    );
  expect(offenders).toEqual([]);
});

it('a column that does not parse is refused whole', () => {
  const schema = z.object({ url: z.string(), method: z.string() });
  expect(() => readColumn(schema, { url: 'https://a.example' }, 'binding.definition')).toThrow(
    expect.objectContaining({ code: 'integrity.forged_row' }),
  );
});

it('a binding whose definition has another form is none, whatever its keyed hash', () => {
  const row = {
    ...{ tenantId: 'default', name: 'odd', protocol: 'http', host: 'a.example', mac: 'same' },
    ...{ updatedBy: 'owner', updatedAt: new Date(0) },
  };
  const vault = { mac: () => 'same' };
  const definition = { name: 'odd', protocol: 'http', host: 'a.example' };
  expect(bindingOf({ ...row, definition }, vault)).toMatchObject({ host: 'a.example' });
  expect(bindingOf({ ...row, definition: { ...definition, host: 7 } }, vault)).toBeUndefined();
  expect(bindingOf({ ...row, definition: 'text' }, vault)).toBeUndefined();
});
