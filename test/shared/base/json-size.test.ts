import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { argumentLimits, parseStrictJson } from '../../../shared/base/strict-json.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

function codeOf(text: string): string {
  try {
    parseStrictJson(Buffer.from(text), { size: argumentLimits });
    return 'accepted';
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return error.code;
  }
}

const members = (count: number) =>
  `{${Array.from({ length: count }, (_, at) => `"m${at}":1`).join(',')}}`;
const list = (count: number) => `[${Array(count).fill('0').join(',')}]`;
const { membersMax, valuesMax, nameBytesMax, namesBytesMax, longNumbersMax } = argumentLimits;

describe('the size of arguments', () => {
  it.each([
    ['members', members(membersMax), members(membersMax + 1), 'args.too_many_members'],
    [
      'members in nested objects',
      `[${members(membersMax / 2)},${members(membersMax / 2)}]`,
      `[${members(membersMax / 2)},${members(membersMax / 2 + 1)}]`,
      'args.too_many_members',
    ],
    ['values in a list', list(valuesMax), list(valuesMax + 1), 'args.too_many_members'],
    [
      'bytes in one name',
      `{"${'n'.repeat(nameBytesMax - 2)}":1}`,
      `{"${'n'.repeat(nameBytesMax - 1)}":1}`,
      'args.name_too_long',
    ],
    [
      'bytes in all names together',
      `[${Array(namesBytesMax / 1_024)
        .fill(`{"${'n'.repeat(1_022)}":1}`)
        .join(',')}]`,
      `[${Array(namesBytesMax / 1_024)
        .fill(`{"${'n'.repeat(1_022)}":1}`)
        .join(',')},{"a":1}]`,
      'args.name_too_long',
    ],
    [
      'numbers with many digits',
      `[${Array(longNumbersMax).fill('1.2345678901234500').join(',')}]`,
      `[${Array(longNumbersMax + 1)
        .fill('1.2345678901234500')
        .join(',')}]`,
      'args.too_many_members',
    ],
  ])('is limited in the number of %s', (_what, most, more, code) => {
    expect(codeOf(most)).toBe('accepted');
    expect(codeOf(more)).toBe(code);
  });

  it('is limited even if names contain escapes or are followed by white space', () => {
    expect(codeOf(`{"${'\\u0061'.repeat(nameBytesMax)}" \n\t: 1}`)).toBe('args.name_too_long');
    expect(codeOf(`{"a" : "${'x'.repeat(nameBytesMax * 4)}"}`)).toBe('accepted');
  });

  it('does not change the parsed values of a body within the limits', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const bytes = Buffer.from(JSON.stringify(value));
        expect(parseStrictJson(bytes, { size: argumentLimits })).toEqual(parseStrictJson(bytes));
      }),
    );
  });
});
