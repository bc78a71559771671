/** JSON text that `jsonText` inserts unchanged instead of serialising it. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

const nested = (open: string, close: string, levels: number) =>
  `${open.repeat(levels)}${close.repeat(levels)}`;

/** Bodies that are invalid for every operation. */
export const brokenBodies: readonly (readonly [string, string | Buffer])[] = [
  ['half of an object', '{"a":'],
  ['two values', '{} {}'],
  ['10,000 arrays that never end', '['.repeat(10_000)],
  ['10,000 nested arrays', nested('[', ']', 10_000)],
  ['10,000 nested objects', `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`],
  ['bytes that are not UTF-8', Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d])],
  ['UTF-16', Buffer.from('\ufeff{"a":1}', 'utf16le')],
  ['a number alone', '9223372036854775808'],
  ['a byte order mark', '\ufeff{}'],
  ['a key given twice', '{"a":1,"a":1}'],
];

/**
 * Valid JSON that cannot be stored without changing its meaning. Every operation refuses it, in any
 * field.
 */
export const unkeepable: readonly (readonly [string, unknown])[] = [
  ['10,000 nested arrays', new RawJson(nested('[', ']', 10_000))],
  ['10,000 nested objects', new RawJson(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`)],
  ['an object with __proto__', new RawJson('{"__proto__":{"role":"owner"}}')],
  ['a key given twice', new RawJson('{"a":1,"a":2}')],
  ['a key given twice, once escaped', new RawJson('{"a":1,"\\u0061":2}')],
  ['2^63', new RawJson('9223372036854775808')],
  ['-2^63', new RawJson('-9223372036854775808')],
  ['2^53', new RawJson('9007199254740992')],
  ['1e400', new RawJson('1e400')],
  ['300 digits', new RawJson('9'.repeat(300))],
  ['the first half of a surrogate pair', '\ud800'],
  ['the second half in a name', { '\udc00x': 1 }],
  ['U+0000', 'a\0b'],
  ['U+0000 in a name', { 'a\0b': 1 }],
];

/**
 * Values that some fields accept and others refuse. In no field may they cause an internal error or
 * a slow response.
 */
export const awkward: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1.5,
  2_147_483_648,
  Number.MAX_SAFE_INTEGER,
  new RawJson('5e-324'),
  '',
  'x'.repeat(70_000),
  '2147483648',
  '9223372036854775808',
  '-1',
  '+275760-09-13T00:00:00.000Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999-14:00',
  '*.'.repeat(2_000),
  `(${'a|'.repeat(200)}b)*{1000}`,
  'constructor',
  [],
  {},
  [null],
  { $ref: '__proto__.polluted' },
  Array.from({ length: 500 }, (_, n) => `**.${n}.*`),
];

/** Texts for a path or a query; they are not percent-encoded yet. */
export const awkwardTexts: readonly string[] = [
  '0',
  '-1',
  '01',
  '1e3',
  '0x10',
  '1.0',
  '2147483647',
  '2147483648',
  '9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '18446744073709551616',
  '9'.repeat(400),
  '١٢٣',
  '%00',
  '%',
  '..',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  "1'; drop table agent; --",
  '*.'.repeat(1_000),
  '+275760-09-13T00:00:00.000Z',
  '0000-01-01T00:00:00Z',
  '-000001-01-01T00:00:00Z',
  '2026-02-30T00:00:00Z',
  'null',
  'true',
  'x'.repeat(5_000),
  'e'.repeat(100),
  Buffer.from('[1,9223372036854775808]').toString('base64url'),
];

/**
 * Texts that are already percent-encoded: bytes that are not valid UTF-8, and text that cannot be
 * stored.
 */
export const encodedTexts: readonly string[] = [
  '%00',
  'a%00b',
  '%ED%A0%80',
  '%FF',
  '%C0%AF',
  '%zz',
];

/** Returns a value as JSON text. */
export function jsonText(value: unknown): string {
  const raw: string[] = [];
  const text = JSON.stringify(value, (_name, member) =>
    member instanceof RawJson ? `@raw:${raw.push(member.text) - 1}@` : member,
  );
  return text.replaceAll(/"@raw:(\d+)@"/g, (_match, at) => raw[Number(at)] ?? '');
}
