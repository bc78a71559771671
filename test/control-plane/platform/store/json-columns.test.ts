import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { bindingOf } from '../../../../control-plane/bindings/stored-binding.ts';
import { readSealed } from '../../../../control-plane/ledger/reading/sealed-text.ts';
import { readColumn } from '../../../../control-plane/platform/store/read-column.ts';
import { storedDefinition } from '../../../../control-plane/policies/policy-record.ts';
import { readManifest } from '../../../../control-plane/records/stored-manifest.ts';
import { GatewayError } from '../../../../shared/errors/gateway-error.ts';

const root = resolve(import.meta.dirname, '../../../..');
const columns = [
  ...readFileSync(join(root, 'prisma/schema.prisma'), 'utf8').matchAll(/^\s+(\w+)\s+Json\b/gm),
].map(([, name]) => name);

const folder = join(root, 'control-plane');
const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.includes('generated'))
  .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));

it('every JSON column is parsed with its schema and never cast to a type', () => {
  expect(columns).toContain('definition');
  const cast = new RegExp(
    `(?<!JSON\\.parse\\([\\w.]*)\\b(?:${columns.join('|')})\\b(?:\\s*\\?\\?\\s*\\{\\})?\\)*\\s+as\\s+(?:[A-Z{]|unknown|never|string|number)`,
  );
  const offenders = sources.flatMap(({ name, text }) =>
    text
      .split('\n')
      .filter((line) => cast.test(line) && !/^\s*(\/?\*|\/\/|`|select )/.test(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  expect(offenders).toEqual([]);
});

// This cast is permitted, because it copies a value that was already parsed.
const copies = ['JSON.parse(JSON.stringify(binding)) as'];
// The text may contain two nested pairs of brackets.
const castText = /JSON\.parse\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s+as\s+\w+/g;

it('every JSON text is parsed with its schema and never cast to a type', () => {
  const offenders = sources.flatMap(({ name, text }) =>
    (text.match(castText) ?? [])
      .filter((found) => !copies.some((copy) => found.startsWith(copy)))
      .map((found) => `${name}: ${found}`),
  );
  expect(offenders).toEqual([]);
  expect(
    'JSON.parse(vault.open(sealed, at(row)).toString()) as Value'.match(castText),
  ).toHaveLength(1);
});

it.each(['', '{', 'null', '[]', '{"name":7}', '{"name":"a","riskTier":"odd"}'])(
  'a manifest column that holds %j is refused',
  (text) => expect(codeOf(() => readManifest(text))).toBe('integrity.forged_row'),
);

it.each(['', '{', 'null', '[]', '{}', '{"id":"a","version":1,"rules":{}}'])(
  'a policy column that holds %j is refused',
  (text) => expect(codeOf(() => storedDefinition(text))).toBe('integrity.forged_row'),
);

const sealed = {
  id: 'ev_1',
  type: 'decision',
  tenant: 'default',
  chain_id: 'agent:1',
  position: 1,
  seq: 1,
  occurred_at: '2026-11-22T00:00:00.000Z',
  source: 'control-plane',
  data: { more: [1] },
};

it('a sealed text is read unchanged, with unknown members', () => {
  const event = { ...sealed, tool: 'notes.read', more: true };
  expect(readSealed(JSON.stringify(event))).toEqual(event);
});

const damages: readonly (readonly [name: string, value: unknown])[] = [
  ...Object.keys(sealed).map((name) => [name, undefined] as const),
  ...Object.keys(sealed).map((name) => [name, null] as const),
  ...['agent_id', 'tool', 'decision', 'reason_code'].map((name) => [name, 7] as const),
  ['position', '1'],
  ['data', []],
];

it.each(damages)('a sealed text whose member %s has the value %j is refused', (name, value) => {
  const text = JSON.stringify({ ...sealed, [name]: value });
  expect(codeOf(() => readSealed(text))).toBe('integrity.forged_row');
});

function codeOf(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    return error instanceof GatewayError ? error.code : error;
  }
}

it('a column that cannot be parsed is rejected as a whole', () => {
  const schema = z.object({ url: z.string(), method: z.string() });
  expect(() => readColumn(schema, { url: 'https://a.example' }, 'binding.definition')).toThrow(
    expect.objectContaining({ code: 'integrity.forged_row' }),
  );
});

it('a binding whose definition does not fit the schema is rejected, even with a valid MAC', () => {
  const row = {
    tenantId: 'default',
    name: 'odd',
    protocol: 'http',
    host: 'a.example',
    mac: 'same',
    updatedBy: 'owner',
    updatedAt: new Date(0),
  };
  const vault = { mac: () => 'same' };
  const definition = { name: 'odd', protocol: 'http', host: 'a.example' };
  expect(bindingOf({ ...row, definition }, vault)).toMatchObject({ host: 'a.example' });
  expect(bindingOf({ ...row, definition: { ...definition, host: 7 } }, vault)).toBeUndefined();
  expect(bindingOf({ ...row, definition: 'text' }, vault)).toBeUndefined();
});
