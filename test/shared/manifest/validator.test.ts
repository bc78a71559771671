import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { argsValidator, schemaProblem } from '../../../shared/manifest/validator.ts';
import { processorMs } from '../../support/base/processor-time.ts';

const refund: JsonObject = {
  type: 'object',
  properties: {
    amount: { type: 'number', exclusiveMinimum: 0, maximum: 100 },
    currency: { enum: ['EUR', 'USD'] },
    items: { type: 'array', items: { type: 'object', properties: { sku: { type: 'string' } } } },
  },
  required: ['amount'],
  additionalProperties: false,
};

describe('validating arguments against a schema', () => {
  it.each<[JsonObject, string | undefined]>([
    [{ amount: 5 }, undefined],
    [{ amount: 5, currency: 'EUR', items: [{ sku: 'a' }] }, undefined],
    [{}, "args must have required property 'amount'"],
    [{ amount: '5' }, 'args.amount must be number'],
    [{ amount: 101 }, 'args.amount must be <= 100'],
    [{ amount: 5, currency: 'GBP' }, 'args.currency must be one of ["EUR","USD"]'],
    [{ amount: 5, items: [{}, { sku: 1 }] }, 'args.items[1].sku must be string'],
    [{ amount: 5, note: 'x' }, 'args has a member that is not allowed: "note"'],
  ])('returns the expected error, if any, for the arguments %j: %s', (args, problem) => {
    expect(argsValidator(refund)(args)).toBe(problem);
  });

  it('never changes the arguments, neither by default values nor by type coercion', () => {
    const args = Object.freeze({ n: '5' });
    const schema = { properties: { n: { type: 'number' }, m: { default: 1 } } };
    expect(argsValidator(schema)(args)).toBe('args.n must be number');
    expect(args).toEqual({ n: '5' });
  });

  it('treats names such as constructor and __proto__ as data', () => {
    expect(argsValidator({ required: ['constructor'] })({})).toBeDefined();
    const sneaky = JSON.parse('{"amount": 5, "__proto__": {"currency": "GBP"}}') as JsonObject;
    expect(argsValidator(refund)(sneaky)).toContain('__proto__');
  });

  it('ignores the keyword `format`', () => {
    expect(argsValidator({ properties: { a: { format: 'email' } } })({ a: 'no' })).toBeUndefined();
  });

  it('accepts decimal fractions as multiples of a cent', () => {
    const validate = argsValidator({ properties: { amount: { multipleOf: 0.01 } } });
    expect(validate({ amount: 0.29 })).toBeUndefined();
    expect(validate({ amount: 19.99 })).toBeUndefined();
    expect(validate({ amount: 0.295 })).toBeDefined();
  });

  it('supports JSON Schema 2020-12 by default, and drafts 6, 7 and 2019-09 by their URI', () => {
    const pairs = { properties: { a: { prefixItems: [{ type: 'string' }], items: false } } };
    expect(argsValidator(pairs)({ a: ['x', 1] })).toBeDefined();
    for (const $schema of [
      'http://json-schema.org/draft-07/schema#',
      'http://json-schema.org/draft-06/schema',
      'https://json-schema.org/draft/2019-09/schema',
    ]) {
      const schema = {
        $schema,
        properties: { a: { items: [{ type: 'string' }], additionalItems: false } },
      };
      expect(argsValidator(schema)({ a: ['x'] })).toBeUndefined();
      expect(argsValidator(schema)({ a: ['x', 1] })).toBeDefined();
    }
  });

  it.each([{}, { $schema: 'http://json-schema.org/draft-07/schema#' }])(
    'follows references to the whole schema, for the base schema %j',
    (dialect) => {
      const tree = { type: 'object', properties: { id: { type: 'string' }, next: { $ref: '#' } } };
      const validate = argsValidator({ ...dialect, ...tree });
      expect(validate({ next: { next: { id: 'x' } } })).toBeUndefined();
      expect(validate({ next: { next: { id: 1 } } })).toContain('args.next.next.id');
    },
  );

  it('refuses references into data, because such references would bypass the work limit', () => {
    const hidden = { default: { allOf: [{ $ref: '#/default' }, { $ref: '#/default' }] } };
    expect(argsValidator({ ...hidden, $ref: '#/default' })({})).toContain('is invalid');
    const named = {
      properties: { enum: { type: 'string' }, other: { $ref: '#/properties/enum' } },
    };
    expect(argsValidator(named)({ other: 'x' })).toBeUndefined();
    expect(argsValidator(named)({ other: 1 })).toContain('args.other');
  });

  it('follows references within the schema', () => {
    const schema = {
      $defs: { node: { properties: { next: { $ref: '#/$defs/node' }, id: { type: 'string' } } } },
      $ref: '#/$defs/node',
    };
    expect(argsValidator(schema)({ next: { next: { id: 5 } } })).toBe(
      'args.next.next.id must be string',
    );
  });

  it('interprets patterns in the same way as JavaScript', () => {
    const validate = argsValidator({
      properties: { a: { pattern: '^\\u00e9\\/(?<letter>\\p{L})$' } },
    });
    expect(validate({ a: 'é/x' })).toBeUndefined();
    expect(validate({ a: 'é/1' })).toBeDefined();
    expect(argsValidator({ properties: { a: { pattern: '^a$' } } })({ a: 'a\n' })).toBeDefined();
  });
});

describe('the schema of a tool', () => {
  it.each<[string, JsonObject]>([
    ['an unknown type', { type: 'wat' }],
    ['a remote reference', { $ref: 'https://evil.example/schema.json' }],
    ['a dangling reference', { $ref: '#/$defs/none' }],
    ['the id of another tool', { $ref: 'tool-a' }],
    ['an unsupported dialect', { $schema: 'http://json-schema.org/draft-04/schema#' }],
    ['a dialect that is not a string', { $schema: 5 }],
    ['a pattern that needs more than linear time', { properties: { a: { pattern: '(?=x)' } } }],
    ['a malformed pattern', { properties: { a: { pattern: '(' } } }],
    ['asynchronous validation', { $async: true }],
    ['a negative length', { properties: { a: { minLength: -1 } } }],
  ])('denies every call if it contains %s', (_, schema) => {
    argsValidator({ $id: 'tool-a', type: 'object' })({});
    expect(argsValidator(schema)({ a: 'x' })).toMatch(/inputSchema/);
    expect(schemaProblem(schema)).toBeDefined();
  });

  it('denies every call, without throwing an exception, if its references are infinite', () => {
    expect(argsValidator({ $dynamicRef: '#x' })({})).toMatch(/inputSchema/);
    expect(argsValidator({ allOf: [{ $ref: '#' }] })({})).toMatch(/inputSchema/);
  });

  it('allows calls even if the schema of another tool has the same ids', () => {
    const one = { $id: 'same', properties: { a: { $id: 'inner', type: 'string' } } };
    const other = { $id: 'same', properties: { a: { $id: 'inner', type: 'number' } } };
    expect(argsValidator(one)({ a: 'x' })).toBeUndefined();
    expect(argsValidator(other)({ a: 1 })).toBeUndefined();
    expect(argsValidator(other)({ a: 'x' })).toBeDefined();
  });
});

describe('validating hostile arguments', () => {
  it.each<[string, JsonObject, JsonObject]>([
    [
      'a pattern that would backtrack',
      { properties: { a: { pattern: '^(a+)+$' } } },
      { a: `${'a'.repeat(5_000)}b` },
    ],
    [
      'many items that must be unique',
      { properties: { a: { uniqueItems: true } } },
      { a: [...Array.from({ length: 50_000 }, (_, i) => ({ i })), { i: 0 }] },
    ],
  ])('takes bounded time for %s', (_, schema, args) => {
    const before = processorMs();
    expect(argsValidator(schema)(args)).toBeDefined();
    expect(processorMs() - before).toBeLessThan(3_000);
  });
});
