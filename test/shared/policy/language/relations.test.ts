import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../../shared/base/json.ts';
import { compilePath } from '../../../../shared/policy/language/path.ts';
import { compilePattern } from '../../../../shared/policy/language/pattern.ts';
import { relations, toNumber } from '../../../../shared/policy/language/relations.ts';
import { processorMs } from '../../../support/base/processor-time.ts';

const length = 1024 * 1024;

describe('an operator in a policy', () => {
  it.each([
    ['digits that end in a letter', `${'1'.repeat(length)}x`],
    ['spaces that end in a letter', `${' '.repeat(length)}x`],
    ['a number, spaces and a letter', `1${' '.repeat(length)}x`],
    ['an endless fraction', `1.${'0'.repeat(length)}x`],
    ['an endless exponent', `${'1'.repeat(length)}e${'1'.repeat(length)}x`],
    ['dots', '.'.repeat(length)],
  ])('decides in bounded time that a megabyte of text is not a number: %s', (_, text) => {
    const startedMs = processorMs();
    expect(toNumber(text, false)).toBeNaN();
    expect(processorMs() - startedMs).toBeLessThan(200);
  });

  it('searches a megabyte of text in linear time with patterns that cause backtracking in other engines', () => {
    const startedMs = processorMs();
    for (const pattern of ['^(a+)+$', '(a|aa)+$', '(.*a){20}b', '(a*)*b']) {
      compilePattern(pattern).search(`${'a'.repeat(length)}!`);
    }
    expect(processorMs() - startedMs).toBeLessThan(5000);
  });

  it('compares objects and arrays by their JSON text, which contains no undefined members', () => {
    const pairs: readonly (readonly [JsonValue, JsonValue, boolean])[] = [
      [{ a: 1, b: undefined }, { a: 1 }, true],
      [{ a: undefined }, { b: undefined }, true],
      [{ a: undefined }, { a: null }, false],
      [{ toString: 1 }, {}, false],
      [{}, { toString: 1 }, false],
      [[], {}, false],
      [[[1], { x: [2] }], [[1], { x: [2] }], true],
      [0, -0, true],
    ];
    for (const [one, other, expected] of pairs) {
      expect(relations['=='](one, other, true)).toBe(expected);
      expect(relations['=='](other, one, true)).toBe(expected);
      expect(relations['!='](one, other, true)).toBe(!expected);
    }
  });
});

describe('a path in a policy', () => {
  it('does not read values from a prototype', () => {
    Object.defineProperty(Object.prototype, 'isAdmin', { value: true, configurable: true });
    try {
      expect(compilePath('user.isAdmin')({ user: { id: 'u' } })).toBeUndefined();
      expect(compilePath('isAdmin')({})).toBeUndefined();
      expect(compilePath('args.a.isAdmin')({ args: { a: {} } })).toBeUndefined();
    } finally {
      Reflect.deleteProperty(Object.prototype, 'isAdmin');
    }
  });

  it('reads members of the context, whatever their names', () => {
    const args: JsonObject = JSON.parse('{"__proto__":{"x":1},"hasOwnProperty":2}');
    expect(compilePath('args.__proto__.x')({ args })).toBe(1);
    expect(compilePath('args.hasOwnProperty')({ args })).toBe(2);
  });
});
