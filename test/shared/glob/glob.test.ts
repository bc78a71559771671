import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  clampTools,
  clampWorkMax,
  compileGlob,
  globCovers,
  matchesAnyGlob,
} from '../../../shared/glob/glob.ts';
import { GlobAutomaton } from '../../../shared/glob/glob-automaton.ts';
import type { GlobKind } from '../../../shared/glob/glob-tokens.ts';
import { processorMs } from '../../support/base/processor-time.ts';

const matches = (pattern: string, text: string, kind: GlobKind = 'tool') =>
  compileGlob(pattern, kind)(text);

/** Translates a glob to a regular expression with the same meaning, for short inputs only. */
function oracle(pattern: string, kind: GlobKind): RegExp {
  if (/^\*+$/.test(pattern)) return /^[\s\S]*$/;
  const segment = kind === 'tool' ? '[^.]+' : '[^/:]+';
  const source = pattern.replace(/\*+|[^*]/g, (part) => {
    if (part === '*') return segment;
    return part.startsWith('*') ? '[\\s\\S]+' : part.replace(/[.\\/]/, '\\$&');
  });
  return new RegExp(`^${source}$`);
}

const kinds = fc.constantFrom<GlobKind>('tool', 'resource');
const letters = fc.constantFrom('a', 'b', '.', '/', ':');
const texts = fc.string({ unit: letters, maxLength: 10 });
const globs = fc.string({ unit: fc.constantFrom('a', 'b', '.', '/', ':', '*'), maxLength: 7 });

const thousand = (glob: (at: number) => string) =>
  Array.from({ length: 1000 }, (_, at) => glob(at));
const manyLetters = Array.from({ length: 120 }, (_, at) => String.fromCharCode(0x4e00 + at)).join(
  '',
);

/** Inputs at the limits of the API: a thousand entries of 256 characters on either side. */
const hostileTools: [string, string[], string[]][] = [
  [
    'globs with many stars',
    thousand((at) => `${'*a'.repeat(120)}x${at}*a`),
    thousand((at) => `${'*a'.repeat(120)}${at}*a`),
  ],
  [
    'long ids and globs with many stars',
    thousand((at) => `${'a'.repeat(250)}${at}a`),
    thousand((at) => `${'*a'.repeat(120)}*${at}*a`),
  ],
  [
    'globs with many letters',
    thousand((at) => `**${manyLetters}**${at}**a`),
    thousand((at) => `**${manyLetters}*${at}*a`),
  ],
];

/** Returns how many operations on words of automaton states `act` executes. */
function wordOperationsOf(act: () => void): number {
  const step = vi.spyOn(GlobAutomaton.prototype, 'step');
  try {
    act();
    const automata = step.mock.contexts as readonly GlobAutomaton[];
    return automata.reduce((sum, { words }) => sum + words, 0);
  } finally {
    step.mockRestore();
  }
}

describe('globs', () => {
  it.each([
    ['mcp.pay.refund', 'mcp.pay.refund', true],
    ['mcp.pay.refund', 'mcp.pay.refunds', false],
    ['mcp.pay.refund', 'MCP.pay.refund', false],
    ['mcp.pay.*', 'mcp.pay.refund', true],
    ['mcp.pay.*', 'mcp.pay.refund.create', false],
    ['mcp.pay.*', 'mcp.pay.', false],
    ['mcp.pay.*', 'mcp.payments', false],
    ['mcp.*.refund', 'mcp.pay.refund', true],
    ['mcp.*.refund', 'mcp.a.b.refund', false],
    ['mcp.*.refund', 'mcp..refund', false],
    ['mcp.**', 'mcp.pay.refund', true],
    ['mcp.**', 'mcp.', false],
    ['mcp.**.refund', 'mcp.a.b.refund', true],
    ['**.refund', 'mcp.pay.refund', true],
    ['get_*', 'get_user', true],
    ['get_*', 'get_user.all', false],
    ['*', 'mcp.pay.refund', true],
    ['**', 'mcp.pay.refund', true],
    ['*', '', true],
    ['mcp.pay.refund?', 'mcp.pay.refund1', false],
    ['mcp.[a-z].x', 'mcp.a.x', false],
  ])('match tool names: %s against %s is %s', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected);
  });

  it.each([
    ['payment:*', 'payment:pay_1', true],
    ['payment:*', 'payment:pay_1/refunds', false],
    ['payment:*', 'payments:pay_1', false],
    ['payment:**', 'payment:pay_1/refunds', true],
    ['repo:acme/*', 'repo:acme/app', true],
    ['repo:acme/*', 'repo:acme/app/secrets', false],
    ['repo:*/app', 'repo:acme/app', true],
    ['repo:*/app', 'repo:a:b/app', false],
    ['file:v1.*', 'file:v1.2.3', true],
  ])('match resources: %s against %s is %s', (pattern, text, expected) => {
    expect(matches(pattern, text, 'resource')).toBe(expected);
  });

  it('match the same texts as an equivalent regular expression', () => {
    fc.assert(
      fc.property(globs, texts, kinds, (pattern, text, kind) => {
        expect(matches(pattern, text, kind)).toBe(oracle(pattern, kind).test(text));
      }),
      { numRuns: 5_000 },
    );
  });

  it('take time linear in the length of the text, for any pattern', () => {
    const pattern = `${'*a'.repeat(30)}b`;
    const text = 'a'.repeat(20_000);
    const before = processorMs();
    expect(matches(pattern, text)).toBe(false);
    expect(processorMs() - before).toBeLessThan(2_000);
  });

  it('match a text if any of several globs matches', () => {
    expect(matchesAnyGlob(['a.b', 'mcp.*'], 'mcp.x', 'tool')).toBe(true);
    expect(matchesAnyGlob([], 'mcp.x', 'tool')).toBe(false);
  });
});

describe('the coverage of a glob by another', () => {
  it.each([
    ['mcp.pay.*', 'mcp.pay.refund', true],
    ['mcp.pay.*', 'mcp.pay.*', true],
    ['mcp.**', 'mcp.pay.*', true],
    ['mcp.pay.*', 'mcp.**', false],
    ['mcp.pay.*', 'mcp.*', false],
    ['mcp.*.*', 'mcp.pay.*', true],
    ['*', 'anything.**', true],
    ['mcp.**', '*', false],
    ['mcp.*', '**', false],
    ['mcp.ref*', 'mcp.refund*', true],
    ['mcp.refund*', 'mcp.ref*', false],
    ['mcp.*und', 'mcp.ref*', false],
    ['mcp.**a', 'mcp.*ba', true],
  ])('has the expected result: %s covers %s: %s', (general, specific, expected) => {
    expect(globCovers(general, specific, 'tool')).toBe(expected);
  });

  it('exists only if the covering glob matches every text that the covered glob matches', () => {
    fc.assert(
      fc.property(globs, globs, texts, kinds, (general, specific, text, kind) => {
        if (!globCovers(general, specific, kind)) return;
        if (matches(specific, text, kind)) expect(matches(general, text, kind)).toBe(true);
      }),
      { numRuns: 10_000 },
    );
  });

  it('is assumed absent if the comparison would exceed the work budget, which is charged before the comparison begins', () => {
    const work = { left: 10_000 };
    const spent = wordOperationsOf(() => {
      expect(globCovers(`${'**a*b'.repeat(20)}*c`, `${'**a*'.repeat(40)}c`, 'tool', work)).toBe(
        false,
      );
    });
    expect(work.left).toBe(0);
    expect(spent).toBeLessThanOrEqual(10_000);
    expect(globCovers('mcp.*.b', 'mcp.*.a.b', 'tool', { left: 100_000 })).toBe(false);
    expect(globCovers('mcp.**.b', 'mcp.*.b', 'tool', { left: 100_000 })).toBe(true);
    expect(globCovers('mcp.**.b', 'mcp.*.b', 'tool', work)).toBe(false);
  });
});

describe('clamping requested tools to capabilities', () => {
  it('keeps each glob that a capability covers, once and in order', () => {
    expect(
      clampTools(
        ['mcp.pay.refund', 'mcp.pay.*', 'mcp.**', 'crm.read', 'mcp.pay.refund'],
        ['mcp.pay.*', 'crm.write'],
      ),
    ).toEqual(['mcp.pay.refund', 'mcp.pay.*']);
  });

  it('drops a glob that no single capability covers, even if several together cover it', () => {
    expect(clampTools(['*', 'mcp.*'], ['mcp.a*', 'mcp.b'])).toEqual([]);
  });

  it.each(hostileTools)('limits the work for %s', (_, requested, capabilities) => {
    const spent = wordOperationsOf(() => clampTools(requested, capabilities));
    expect(spent).toBeLessThanOrEqual(clampWorkMax);
  });

  it('drops a tool if the check of its coverage would exceed the work budget', () => {
    expect(clampTools(['mcp.a.b'], ['mcp.*.b'], { left: 10_000 })).toEqual(['mcp.a.b']);
    expect(clampTools(['mcp.a.b'], ['mcp.*.b'], { left: 10 })).toEqual([]);
  });

  it('compares a thousand common tools with a thousand capabilities', () => {
    const same = thousand((at) => `area${at}.thing.*`);
    expect(clampTools(same, same)).toEqual(same);
    const tools = thousand((at) => `area${at}.thing.read`);
    expect(clampTools(tools, same)).toEqual(tools);
    expect(clampTools(tools, ['area1.**', 'area2.thing.*'])).toHaveLength(2);
  });

  it('returns nothing for an agent without capabilities', () => {
    expect(clampTools(['mcp.pay.refund'], [])).toEqual([]);
  });
});
