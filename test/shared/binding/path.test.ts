import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  encodeSegment,
  matchSegments,
  parsePathTemplate,
  splitPath,
  templatesOverlap,
} from '../../../shared/binding/path.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

function codeOf(act: () => unknown): string {
  try {
    act();
    return 'accepted';
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return error.code;
  }
}

describe('a path template', () => {
  it('consists of literal segments, whole-segment parameters and query names', () => {
    expect(parsePathTemplate('/v1/payments/{payment_id}{?expand,limit}')).toEqual({
      segments: [{ literal: 'v1' }, { literal: 'payments' }, { parameter: 'payment_id' }],
      queryNames: ['expand', 'limit'],
      literals: 2,
    });
    expect(parsePathTemplate('/').segments).toEqual([{ literal: '' }]);
    expect(parsePathTemplate('/a/').segments).toEqual([{ literal: 'a' }, { literal: '' }]);
  });

  it.each([
    '',
    'v1',
    '//a',
    '/a//b',
    '/a/./b',
    '/a/../b',
    '/a/{b}c',
    '/a/{}',
    '/a/{b}/{b}',
    '/a/{b}{?b}',
    '/a/{__proto__}',
    '/a{?__proto__}',
    '/a{?}',
    '/a?b=c',
    '/a#b',
    '/a%2fb',
    '/a;b',
    '/a\\b',
    '/a b',
    '/ä',
    '/{a',
  ])('is refused: %s', (template) => {
    expect(codeOf(() => parsePathTemplate(template))).toBe('binding.invalid');
  });
});

describe('the path of a request', () => {
  it('is decoded exactly once', () => {
    expect(splitPath('/v1/a%20b/%E2%82%AC')).toEqual(['v1', 'a b', '€']);
    expect(splitPath('/a%25')).toEqual(['a%']);
    expect(splitPath('/')).toEqual(['']);
    expect(splitPath('/a/')).toEqual(['a', '']);
  });

  it.each([
    '',
    '*',
    'a',
    '//',
    '/a//',
    '/.',
    '/..',
    '/a/..',
    '/%2e',
    '/%2E%2e/',
    '/a%2Fb',
    '/a%5Cb',
  ])('is refused: %s', (path) => {
    expect(codeOf(() => splitPath(path))).toBe('proxy.path_refused');
  });

  it('is decoded to the original segments, if they can be encoded', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 4 }),
        (values) => {
          let path = '';
          try {
            path = values.map((value) => `/${encodeSegment(value)}`).join('');
          } catch (error) {
            expect(error).toMatchObject({ code: 'proxy.path_refused' });
            return;
          }
          expect(splitPath(path)).toEqual(values);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('is either split into segments or refused with proxy.path_refused, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (path) => {
        expect(['accepted', 'proxy.path_refused']).toContain(codeOf(() => splitPath(`/${path}`)));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('matching a path', () => {
  const segmentsOf = (path: string) => splitPath(path);

  it('fills parameters by position', () => {
    const template = parsePathTemplate('/a/{x}/b/{y}');
    expect(matchSegments(template, segmentsOf('/a/1/b/2'))).toEqual([
      ['x', '1'],
      ['y', '2'],
    ]);
    expect(matchSegments(template, segmentsOf('/a/1/c/2'))).toBeUndefined();
    expect(matchSegments(template, segmentsOf('/a/1/b'))).toBeUndefined();
    expect(matchSegments(template, segmentsOf('/a/1/b/'))).toBeUndefined();
  });

  it('considers two templates as overlapping if and only if some path matches both', () => {
    const segment = fc.constantFrom('a', 'b', '{x}', '');
    const template = fc
      .array(segment, { minLength: 1, maxLength: 3 })
      .map((texts) => `/${texts.map((text, i) => text.replace('x', `x${i}`)).join('/')}`)
      .filter((text) => codeOf(() => parsePathTemplate(text)) === 'accepted')
      .map(parsePathTemplate);
    const words = ['a', 'b', 'c', ''];
    const paths = words.flatMap((one) => [
      [one],
      ...words.flatMap((two) => [[one, two], ...words.map((three) => [one, two, three])]),
    ]);
    fc.assert(
      fc.property(template, template, (one, other) => {
        const meets = paths.some(
          (path) =>
            matchSegments(one, path) !== undefined && matchSegments(other, path) !== undefined,
        );
        expect(templatesOverlap(one, other)).toBe(meets);
      }),
      { numRuns: 1_000 },
    );
  });
});
