import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clampTools, compileGlob, globCovers, matchesAnyGlob } from '../../shared/glob.ts';
import type { GlobKind } from '../../shared/glob-tokens.ts';
import { processorMs } from '../support/processor-time.ts';

const matches = (pattern: string, text: string, kind: GlobKind = 'tool') =>
  compileGlob(pattern, kind)(text);

/** The same meaning, said as a regular expression; for short inputs only. */
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
  ])('tool glob %s against %s: %s', (pattern, text, expected) => {
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
  ])('resource glob %s against %s: %s', (pattern, text, expected) => {
    expect(matches(pattern, text, 'resource')).toBe(expected);
  });

  it('mean the same as their plain description, for any pattern and text', () => {
    fc.assert(
      fc.property(globs, texts, kinds, (pattern, text, kind) => {
        expect(matches(pattern, text, kind)).toBe(oracle(pattern, kind).test(text));
      }),
      { numRuns: 5_000 },
    );
  });

  it('take time linear in the text, whatever the pattern', () => {
    const pattern = `${'*a'.repeat(30)}b`;
    const text = 'a'.repeat(20_000);
    const before = processorMs();
    expect(matches(pattern, text)).toBe(false);
    expect(processorMs() - before).toBeLessThan(2_000);
  });

  it('match when any of several does', () => {
    expect(matchesAnyGlob(['a.b', 'mcp.*'], 'mcp.x', 'tool')).toBe(true);
    expect(matchesAnyGlob([], 'mcp.x', 'tool')).toBe(false);
  });
});

describe('covering', () => {
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
  ])('%s covers %s: %s', (general, specific, expected) => {
    expect(globCovers(general, specific, 'tool')).toBe(expected);
  });

  it('never lets a text through that the covering glob refuses', () => {
    fc.assert(
      fc.property(globs, globs, texts, kinds, (general, specific, text, kind) => {
        if (!globCovers(general, specific, kind)) return;
        if (matches(specific, text, kind)) expect(matches(general, text, kind)).toBe(true);
      }),
      { numRuns: 10_000 },
    );
  });

  it('settles hostile pairs in bounded time, as not covered', () => {
    const before = processorMs();
    expect(globCovers('**a*b**a*b**a*b**a*b**c'.repeat(4), '**a*'.repeat(40), 'tool')).toBe(false);
    expect(processorMs() - before).toBeLessThan(3_000);
  });
});

describe('clamping requested tools to capabilities', () => {
  it('keeps what one capability covers whole, once and in order', () => {
    expect(
      clampTools(
        ['mcp.pay.refund', 'mcp.pay.*', 'mcp.**', 'crm.read', 'mcp.pay.refund'],
        ['mcp.pay.*', 'crm.write'],
      ),
    ).toEqual(['mcp.pay.refund', 'mcp.pay.*']);
  });

  it('drops a glob that reaches beyond every capability, even if several together cover it', () => {
    expect(clampTools(['*', 'mcp.*'], ['mcp.a*', 'mcp.b'])).toEqual([]);
  });

  it('takes bounded time, whatever is asked for and whatever the agent is capable of', () => {
    const hostile = (end: string) =>
      Array.from({ length: 1000 }, (_, n) => `${'*a'.repeat(120)}${end}${n}`);
    const startedAt = processorMs();
    expect(clampTools(hostile('x'), hostile(''))).toEqual([]);
    expect(processorMs() - startedAt).toBeLessThan(5_000);
    const plain = Array.from({ length: 1000 }, (_, n) => `area${n}.thing.*`);
    expect(clampTools(plain, plain)).toEqual(plain);
  });

  it('gives nothing to an agent without capabilities', () => {
    expect(clampTools(['mcp.pay.refund'], [])).toEqual([]);
  });
});
