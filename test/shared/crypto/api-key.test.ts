import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatApiKey, generateApiKey, isApiKey } from '../../../shared/crypto/api-key.ts';

const known = 'apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ';

it('the checksum of an API key equals that of the published test vector', () => {
  expect(formatApiKey('0123456789ABCDEFGHIJabcdefghij')).toBe(known);
  expect(isApiKey(known)).toBe(true);
});

it('generated API keys are recognised, and no two are equal', () => {
  const keys = Array.from({ length: 200 }, generateApiKey);
  expect(keys.every(isApiKey)).toBe(true);
  expect(new Set(keys).size).toBe(200);
});

it('an API key with one changed character is not recognised', () => {
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
  '%j is not recognised as an API key',
  (text) => {
    expect(isApiKey(text)).toBe(false);
  },
);
