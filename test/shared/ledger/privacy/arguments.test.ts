import { expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../../shared/base/json.ts';
import { argumentsEvidence } from '../../../../shared/ledger/privacy/arguments.ts';

const shapeText = (args: JsonObject) => JSON.stringify(argumentsEvidence(args).evidence.args_shape);

function wide(depth: number): JsonValue {
  if (depth === 0) return 1;
  return Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`n${n}`, wide(depth - 1)]));
}

it('the shape of arguments contains names and types, and no value', () => {
  expect(shapeText({ to: ['a@b.example'], amount: 4, when: null })).toBe(
    '{"amount":"number","to":["string"],"when":"null"}',
  );
});

it('the shape of arguments stays small, however wide or deep the arguments are and however long their names are', () => {
  const widest = { a: wide(3), b: wide(3), c: { ['n'.repeat(500_000)]: 1 } };
  expect(shapeText(widest).length).toBeLessThan(100_000);
});

it('the shape of arguments contains no name that the ledger refuses', () => {
  const args = {
    ...(JSON.parse('{"a\\u0000b": 1, "__proto__": {"c": 2}}') as JsonObject),
    [`${'x'.repeat(99)}\u{1F600}`]: 3,
  };
  const shape = argumentsEvidence(args).evidence.args_shape;
  expect(Object.keys(shape as JsonObject)).toEqual([
    '(__proto__)',
    'a\u{FFFD}b',
    `${'x'.repeat(99)}\u{FFFD}`,
  ]);
});
