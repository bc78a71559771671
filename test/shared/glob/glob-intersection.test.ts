import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileGlob } from '../../../shared/glob/glob.ts';
import {
  globsCertainlyIntersect,
  globsMayIntersect,
  intersectGlobs,
} from '../../../shared/glob/glob-intersection.ts';
import type { GlobKind } from '../../../shared/glob/glob-tokens.ts';

const meet = (one: string, other: string, kind: GlobKind = 'tool') =>
  intersectGlobs(one, other, kind).kind === 'common';

const kinds = fc.constantFrom<GlobKind>('tool', 'resource');
const marks = fc.constantFrom('a', 'b', '.', '/', ':', '*', '**');
const globsOf = (maxLength: number) =>
  fc.array(marks, { maxLength }).map((parts) => parts.join(''));
const globs = globsOf(7);

/** Yields every text over the alphabet, shortest first. */
function* textsUpTo(length: number, alphabet: readonly string[]): Generator<string> {
  let layer = [''];
  yield '';
  for (let size = 1; size <= length; size += 1) {
    layer = layer.flatMap((text) => alphabet.map((char) => text + char));
    yield* layer;
  }
}

/**
 * Returns a text that the glob matches: replaces each star by one of the fillings for which it may
 * stand.
 */
function filled(glob: string, fillings: readonly string[], kind: GlobKind): string {
  const apart = kind === 'tool' ? /\./g : /[/:]/g;
  let next = 0;
  return glob.replaceAll(/\*+/g, (run) => {
    const filling = fillings[next++ % fillings.length] ?? 'x';
    const crosses = run.length > 1 || /^\*+$/.test(glob);
    return (crosses ? filling : filling.replaceAll(apart, '')) || 'x';
  });
}

/** Replaces the chosen ranges of a text by stars that match them. */
function generalised(text: string, ranges: readonly (readonly [number, number])[], kind: GlobKind) {
  const apart = kind === 'tool' ? /\./ : /[/:]/;
  let glob = '';
  let at = 0;
  for (const [from, length] of ranges.toSorted(([a], [b]) => a - b)) {
    const begins = Math.max(at, from);
    const part = text.slice(begins, begins + length);
    if (part === '' || begins >= text.length) continue;
    glob += `${text.slice(at, begins)}${apart.test(part) ? '**' : '*'}`;
    at = begins + part.length;
  }
  return glob + text.slice(at);
}

describe('the intersection of two globs', () => {
  it.each([
    ['notes.*', 'payments.*', false],
    ['notes.*', 'notes.read', true],
    ['notes.*', '*', true],
    ['notes.*', '**', true],
    ['notes.*', '**.read', true],
    ['notes.*', '*.read', true],
    ['notes.*', '*.read.all', false],
    ['notes.**', '*.read.all', true],
    ['*.refund', 'payments.*', true],
    ['payments.*.refund', 'payments.eu.*', true],
    ['payments.*.refund', 'payments.*', false],
    ['mcp.pay.*', 'mcp.*.refund', true],
    ['mcp.a*', 'mcp.b*', false],
    ['mcp.*a', 'mcp.*b', false],
    ['mcp.a*', 'mcp.*b', true],
    ['a*a', 'a', false],
    ['a*', 'a', false],
    ['a*', 'a**', true],
    ['*', '', true],
    ['', 'a*', false],
    ['Notes.*', 'notes.*', false],
  ])('exists for %s and %s: %s', (one, other, expected) => {
    expect(meet(one, other)).toBe(expected);
    expect(meet(other, one)).toBe(expected);
  });

  it('is computed with / and : as separators for resources only', () => {
    expect(meet('repo:*', 'repo:**/app', 'resource')).toBe(false);
    expect(meet('repo:*', 'repo:**/app', 'tool')).toBe(true);
  });

  it('is found if and only if some text matches both globs', () => {
    fc.assert(
      fc.property(globsOf(3), globsOf(3), kinds, (one, other, kind) => {
        const [first, second] = [compileGlob(one, kind), compileGlob(other, kind)];
        // Each character of a shortest common text consumes a token, so six tokens match at most
        // six characters.
        const alphabet = [...new Set([...`${one}${other}`.replaceAll('*', ''), 'x'])];
        const isFound = textsUpTo(6, alphabet).some((text) => first(text) && second(text));
        expect([one, other, meet(one, other, kind)]).toEqual([one, other, isFound]);
      }),
      { numRuns: 1_500 },
    );
  });

  it('is returned with an example text that matches both globs', () => {
    fc.assert(
      fc.property(globs, globs, kinds, (one, other, kind) => {
        const found = intersectGlobs(one, other, kind);
        expect(found.kind).not.toBe('undecided');
        if (found.kind !== 'common') return;
        expect([found.text, compileGlob(one, kind)(found.text)]).toEqual([found.text, true]);
        expect([found.text, compileGlob(other, kind)(found.text)]).toEqual([found.text, true]);
      }),
      { numRuns: 20_000 },
    );
  });

  it('is found for any two globs that are generalised from the same text', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', 'b', '.', '/', ':'),
      minLength: 1,
      maxLength: 20,
    });
    const ranges = fc.array(fc.tuple(fc.nat(19), fc.integer({ min: 1, max: 6 })), { maxLength: 4 });
    fc.assert(
      fc.property(text, ranges, ranges, kinds, (id, first, second, kind) => {
        const [one, other] = [generalised(id, first, kind), generalised(id, second, kind)];
        expect(compileGlob(one, kind)(id) && compileGlob(other, kind)(id)).toBe(true);
        expect([one, other, meet(one, other, kind)]).toEqual([one, other, true]);
      }),
      { numRuns: 10_000 },
    );
  });

  it('is found whenever a random text matches both globs', () => {
    const fillings = fc.array(
      fc.string({ unit: fc.constantFrom('a', 'b', '.', '/', ':'), maxLength: 5 }),
      { minLength: 1, maxLength: 4 },
    );
    fc.assert(
      fc.property(globs, globs, fillings, kinds, (one, other, parts, kind) => {
        for (const text of [filled(one, parts, kind), filled(other, parts, kind)]) {
          const isCommon = compileGlob(one, kind)(text) && compileGlob(other, kind)(text);
          if (isCommon)
            expect([one, other, text, meet(one, other, kind)]).toEqual([one, other, text, true]);
        }
      }),
      { numRuns: 20_000 },
    );
  });

  it('does not depend on the order of the two globs', () => {
    fc.assert(
      fc.property(globs, globs, kinds, (one, other, kind) => {
        expect(meet(one, other, kind)).toBe(meet(other, one, kind));
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('the work budget of an intersection', () => {
  const long = `${'*a'.repeat(100)}b`;
  const apart = `${'*a'.repeat(100)}.*b`;
  const few = () => ({ steps: 1_000 });

  it('is exhausted by long globs; delivery of secrets then assumes no intersection, and invalidation assumes one', () => {
    expect(globsCertainlyIntersect([long], [long.replace('b', '*b')], 'tool', few())).toBe(false);
    expect(globsMayIntersect([long], [apart], 'tool', few())).toBe(true);
  });

  it('suffices by default for the longest globs', () => {
    expect(globsCertainlyIntersect([long], [long.replace('b', '*b')], 'tool')).toBe(true);
    expect(globsMayIntersect([long], [apart], 'tool')).toBe(false);
  });

  it('is shared by all pairs of globs', () => {
    const many = Array.from({ length: 1_000 }, (_, index) => `${index}*${long}`);
    const budget = { steps: 10_000 };
    expect(
      globsCertainlyIntersect(
        many,
        many.map((glob) => `*${glob}c`),
        'tool',
        budget,
      ),
    ).toBe(false);
    expect(budget.steps).toBeLessThanOrEqual(0);
  });

  it('does not hide the intersection of one pair if another pair exhausts the budget', () => {
    expect(globsCertainlyIntersect(['pay.refund', long], ['pay.*'], 'tool', few())).toBe(true);
  });
});
