import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { foldPrincipal, nameProblem } from '../../../shared/base/principal.ts';

describe('the normalised form of a principal', () => {
  it.each([
    ['alice', 'Alice'],
    ['alice', 'ＡＬＩＣＥ'],
    ['alice', 'al\u200bice'],
    ['alice', 'alice\u00ad'],
    ['alice', '\u202ealice'],
    ['alice', ' alice\u00a0'],
    ['ann lee', 'ann\u3000\tlee'],
    ['ann lee', 'Ann  Lee'],
    ['straße', 'STRASSE'],
    ['ﬁona', 'fiona'],
    ['andré', 'andre\u0301'],
  ])('is the same for %j and %j', (one, other) => {
    expect(foldPrincipal(other)).toBe(foldPrincipal(one));
  });

  it('differs for different people', () => {
    expect(new Set(['ann', 'anna', 'an n', 'an.n', 'ann1'].map(foldPrincipal)).size).toBe(5);
  });

  it('is the same for the upper and the lower case of every character', () => {
    const differing: string[] = [];
    for (let codePoint = 0; codePoint <= 0x10ffff; codePoint++) {
      // Surrogates are not characters.
      if (codePoint >= 0xd800 && codePoint <= 0xdfff) continue;
      const text = String.fromCodePoint(codePoint);
      const [upper, lower] = [text.toUpperCase(), text.toLowerCase()];
      if (upper === text && lower === text) continue;
      const forms = [text, upper, lower, foldPrincipal(text)];
      if (new Set(forms.map(foldPrincipal)).size > 1) differing.push(`U+${codePoint.toString(16)}`);
    }
    expect(differing).toEqual([]);
  });

  it('is unchanged if it is normalised again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(foldPrincipal(foldPrincipal(text))).toBe(foldPrincipal(text));
      }),
    );
  });
});

describe('the name of a new principal', () => {
  it.each(['alice', 'Ann Lee', 'andré', 'user@example.org', '李雷', 'ci-runner_2'])(
    'can be %j',
    (name) => {
      expect(nameProblem(name)).toBeUndefined();
    },
  );

  it.each([
    ['a control character', 'al\u0007ice'],
    ['a zero-width space', 'al\u200bice'],
    ['a soft hyphen', 'alice\u00ad'],
    ['a direction mark', '\u202ealice'],
    ['a Hangul filler', 'alice\u3164'],
    ['a no-break space', 'ann\u00a0lee'],
    ['an ideographic space', 'ann\u3000lee'],
    ['two spaces', 'ann  lee'],
    ['a trailing space', 'alice '],
    ['full-width letters', 'ａlice'],
    ['a ligature', 'ﬁona'],
    ['a letter and a combining mark that have a composed form', 'andre\u0301'],
    ['an unpaired surrogate', 'alice\ud83d'],
  ])('is refused if it contains %s', (_what, name) => {
    expect(nameProblem(name)).toBeTypeOf('string');
  });
});
