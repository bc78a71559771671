import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseStrictJson } from '../../../shared/base/strict-json.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { processorMs } from '../../support/base/processor-time.ts';

const bytes = (text: string) => Buffer.from(text, 'utf8');

function codeOf(input: string | Uint8Array, limits = {}): string {
  try {
    parseStrictJson(typeof input === 'string' ? bytes(input) : input, limits);
    return 'accepted';
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return error.code;
  }
}

describe('strict JSON', () => {
  it('parses valid JSON text with the same result as JSON.parse', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value);
        expect(parseStrictJson(bytes(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it('returns values that are unchanged after JSON.stringify and another strict parse', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        if (codeOf(text) !== 'accepted') return;
        const value = parseStrictJson(bytes(text));
        expect(parseStrictJson(bytes(JSON.stringify(value)))).toEqual(value);
      }),
    );
  });

  it.each([
    '0',
    '-1',
    '1.10',
    '1e2',
    '1E+2',
    '0.1',
    '123456789012345',
    '9007199254740992',
    '0e9999999999',
    '5e-324',
    '1.7976931348623157e308',
    '0.00010',
    '100000000000000000000000',
  ])('accepts the number %s', (text) => {
    expect(parseStrictJson(bytes(text))).toBe(Number(text));
  });

  it('reads __proto__ and constructor as data, and leaves the prototype unchanged', () => {
    const value = parseStrictJson(bytes('{"__proto__":{"admin":true},"constructor":1}')) as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect('admin' in value).toBe(false);
    expect(JSON.stringify(value)).toBe('{"__proto__":{"admin":true},"constructor":1}');
  });

  it('accepts the same key in different objects', () => {
    expect(codeOf('{"a":{"a":1},"b":[{"a":1},{"a":2}]}')).toBe('accepted');
  });

  it('reads colons, quotes and brackets inside strings as text', () => {
    expect(codeOf('{"a:b":"c:d","e\\"f":"{[[[:","g\\\\":"h\\\\\\"i:"}')).toBe('accepted');
  });

  it('reads an escaped surrogate pair as one character', () => {
    expect(parseStrictJson(bytes('"\\ud83d\\ude00"'))).toBe('😀');
  });

  it('reads a view into a larger buffer from the start of the view', () => {
    const whole = bytes('xx{"a":1}yy');
    expect(parseStrictJson(whole.subarray(2, 9))).toEqual({ a: 1 });
    expect(parseStrictJson(new Uint8Array(whole.subarray(2, 9)))).toEqual({ a: 1 });
  });
});

describe('strict JSON refuses', () => {
  it.each([
    ['a duplicate key', '{"a":1,"a":1}'],
    ['a duplicate key, once plain and once escaped', '{"a":1,"\\u0061":2}'],
    ['a duplicate key in a nested object', '{"x":[[{"y":{"a":1,"b":2,"a":3}}]]}'],
    ['a duplicate __proto__', '{"__proto__":1,"__proto__":2}'],
    ['a duplicate empty key', '{"":1,"":2}'],
    ['a duplicate numeric key', '{"1":1,"0":0,"1":2}'],
  ])('%s', (_, text) => {
    expect(codeOf(text)).toBe('args.duplicate_key');
  });

  it.each([
    '9007199254740993',
    '12345678901234567890',
    '-9007199254740993',
    '1e400',
    '-1e400',
    '1e-400',
    '0.1234567890123456789',
    '1.0000000000000000001',
    '-0',
    '-0.0',
    '-0e5',
    `${'9'.repeat(400)}`,
  ])('the number %s, which a double cannot represent', (text) => {
    expect(codeOf(`{"a":[${text}]}`)).toBe('args.number_unsafe');
  });

  it('a number that a double cannot represent, unless the caller requests rounding', () => {
    expect(parseStrictJson(bytes('18446744073709551615'), { numbers: 'rounded' })).toBe(2 ** 64);
  });

  it.each([
    ['a byte order mark', Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d])],
    ['a lone continuation byte', Buffer.from([0x22, 0x80, 0x22])],
    ['an overlong encoding of a slash', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['an encoded surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['UTF-16', Buffer.from('{"a":"é"}', 'utf16le').fill(0xff, 0, 1)],
    ['Latin-1', Buffer.from('"é"', 'latin1')],
    ['an unpaired surrogate in a value', bytes('["\\ud800"]')],
    ['an unpaired surrogate in a key', bytes('{"\\uDC00":1}')],
    ['a reversed surrogate pair', bytes('"\\udc00\\ud800"')],
  ])('%s', (_, input) => {
    expect(codeOf(input)).toBe('args.encoding_invalid');
  });

  it.each([
    '',
    ' ',
    '{',
    '{"a":1}x',
    '{"a":1}{"a":1}',
    '{"a":1,}',
    "{'a':1}",
    '{a:1}',
    '[1,]',
    '01',
    '+1',
    '.5',
    '1.',
    '0x10',
    'NaN',
    'Infinity',
    'undefined',
    '"\t"',
    '// c\n1',
    '{"a":1}\0',
    '"\\x41"',
    '--1',
    '1-1',
    '-',
    '"a',
    '"\\',
    '{"a"::1}',
  ])('%j, which is not JSON', (text) => {
    expect(codeOf(text)).toBe('args.schema_invalid');
  });

  it('the 65th level of nesting, and accepts the 64th', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    expect(codeOf(nested(64))).toBe('accepted');
    expect(codeOf(nested(65))).toBe('args.too_deep');
    expect(codeOf(`{"a":${nested(64)}}`)).toBe('args.too_deep');
    expect(codeOf(`[${Array(100).fill('[]').join(',')}]`, { depthMax: 2 })).toBe('accepted');
  });

  it('a megabyte of opening brackets, without a deep stack', () => {
    expect(codeOf('['.repeat(1 << 20))).toBe('args.too_deep');
    expect(codeOf('{"a":'.repeat(1 << 18))).toBe('args.too_deep');
  });

  it('megabytes of hostile text, in linear time', () => {
    const started = processorMs();
    codeOf(`[${'9'.repeat(1 << 20)}]`);
    codeOf(`[0.${'0'.repeat(1 << 20)}1]`);
    codeOf(`[1${'0'.repeat(1 << 19)}1${'0'.repeat(1 << 19)}1]`);
    codeOf(`"${'\\"'.repeat(1 << 19)}`);
    codeOf(`"${'\\ud83d\\ude00'.repeat(1 << 16)}"`);
    expect(processorMs() - started).toBeLessThan(5_000);
  });

  it('any invalid bytes, and throws only its own type of error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (input) => {
        codeOf(input);
      }),
      { numRuns: 2_000 },
    );
  });

  it('a duplicate key anywhere in an object', () => {
    const dictionary = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { minKeys: 1 });
    fc.assert(
      fc.property(dictionary, fc.nat(), (object, pick) => {
        const names = Object.keys(object);
        const name = names[pick % names.length] ?? '';
        const text = JSON.stringify(object);
        const doubled = `${text.slice(0, -1)},${JSON.stringify(name)}:null}`;
        if (codeOf(text) === 'accepted') expect(codeOf(doubled)).toBe('args.duplicate_key');
      }),
    );
  });
});
