import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatApiKey, generateApiKey, isApiKey } from '../../../shared/crypto/api-key.ts';

const known = 'apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ';

it('gives the checksum of the published vector', () => {
  expect(formatApiKey('0123456789ABCDEFGHIJabcdefghij')).toBe(known);
  expect(isApiKey(known)).toBe(true);
});

it('makes keys that it recognises, no two alike', () => {
  const keys = Array.from({ length: 200 }, generateApiKey);
  expect(keys.every(isApiKey)).toBe(true);
  expect(new Set(keys).size).toBe(200);
});

it('recognises no key in which one character differs', () => {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  fc.assert(
    fc.property(
      fc.integer({ min: 4, max: known.length - 1 }),
      fc.constantFrom(...alphabet),
      (at, char) => {
        fc.pre(known[at] !== char);
        expect(isApiKey(known.slice(0, at) + char + known.slice(at + 1))).toBe(false);
      },
    ),
  );
});

it.each(['', 'apk_', known.slice(4), `${known} `, `${known}\n`, known.toLowerCase(), `x${known}`])(
  'recognises no key in %j',
  (text) => {
    expect(isApiKey(text)).toBe(false);
  },
);
