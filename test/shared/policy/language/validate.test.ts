import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GatewayError } from '../../../../shared/errors/gateway-error.ts';
import { operators, ruleDecisions } from '../../../../shared/policy/language/definition.ts';
import { policyLimits } from '../../../../shared/policy/language/definition-limits.ts';
import { policyHash } from '../../../../shared/policy/language/hash.ts';
import { parsePolicy } from '../../../../shared/policy/language/validate.ts';
import { processorMs } from '../../../support/base/processor-time.ts';
import { policies } from '../../../support/policy/policy-arbitraries.ts';
import {
  condition,
  type Fields,
  policy,
  rule,
  withApproval,
  withCondition,
  withRule,
  withWhen,
} from '../../../support/policy/policy-drafts.ts';
import { refused } from './validate.cases.ts';

const when = 'rules[0].when';
const first = `${when}.all[0]`;

function refusalOf(input: unknown): string {
  try {
    parsePolicy(input);
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({ code: 'policy.invalid' });
    return error instanceof Error ? error.message : '';
  }
  return 'accepted';
}

describe('a submitted policy', () => {
  it.each(refused)(
    'is refused if it has %s, with an error that contains the path of the problem',
    (_, input, message) => {
      const refusal = refusalOf(input);
      expect(refusal.slice(0, message.length)).toBe(message);
    },
  );

  it.each(['[a', '(?=a)b', '(?<=a)b', '(a)\\1', 'a{1001}', '((a{100}){100}){100}', '*', '\\8'])(
    'is refused if it has the pattern %s, which RE2 does not support',
    (value) => {
      const refusal = refusalOf(withCondition({ operator: 'matches', value }));
      expect(refusal).toContain(`${first}.value: ${JSON.stringify(value)} is not a usable`);
    },
  );

  it.each([
    [
      'rules',
      policy({ rules: Array.from({ length: 2001 }, (_, at) => rule({ name: `r${at}` })) }),
      'rules: more than 2000 rules',
    ],
    [
      'conditions',
      withWhen({ any: Array.from({ length: 101 }, () => condition()) }),
      `${when}.any: more than 100 conditions`,
    ],
    [
      'listed values',
      withCondition({ operator: 'in', value: new Array(5001).fill(1) }),
      `${first}.value: more than 5000 values`,
    ],
    [
      'globs',
      policy({ applies_to: { tools: new Array(101).fill('pay.*') } }),
      'applies_to.tools: more than 100 globs',
    ],
    [
      'listed tools',
      policy({ applies_to: { tools: new Array(1001).fill('t') } }),
      'applies_to.tools: more than 1000 tools',
    ],
    ['a long id', policy({ id: 'x'.repeat(101) }), 'id: longer than 100 characters'],
    [
      'a long path',
      withCondition({ path: `args.${'x'.repeat(256)}` }),
      `${first}.path: longer than 256 characters`,
    ],
    [
      'a long pattern',
      withCondition({ operator: 'matches', value: 'x'.repeat(1001) }),
      `${first}.value: longer than 1000 characters`,
    ],
    [
      'a long value',
      withCondition({ value: 'x'.repeat(8193) }),
      `${first}.value: a string longer than 8192 characters`,
    ],
    ['a megabyte of text', ' '.repeat(1024 * 1024 + 1), 'policy: longer than 1048576 characters'],
    [
      'a megabyte of values',
      policy({ description: new Array(200).fill('x'.repeat(8000)) }),
      'policy: larger than 1048576 characters',
    ],
  ])('is refused if a limit is exceeded by %s', (_, input, message) => {
    expect(refusalOf(input)).toBe(message);
  });

  it('is refused in milliseconds if it is nested 10,000 levels deep, as text or as objects', () => {
    const deepText = `{"id":"a","version":1,"rules":${'['.repeat(10_000)}${']'.repeat(10_000)}}`;
    const deepKeys = `${'{"when":'.repeat(10_000)}1${'}'.repeat(10_000)}`;
    const startedMs = processorMs();
    for (const text of [deepText, deepKeys]) {
      expect(refusalOf(text)).toContain('nested deeper than 32 levels');
      expect(refusalOf(JSON.parse(text))).toContain('nested deeper than 32 levels');
    }
    expect(processorMs() - startedMs).toBeLessThan(100);
  });

  it('is refused before its patterns are compiled', () => {
    const rules = Array.from({ length: 1000 }, (_, index) =>
      rule({
        name: `r${index}`,
        when: { any: [condition({ operator: 'matches', value: `(x${index}y{900})` })] },
      }),
    );
    const startedMs = processorMs();
    expect(refusalOf(policy({ rules }))).toMatch(
      /the patterns of this policy together are too large/,
    );
    expect(processorMs() - startedMs).toBeLessThan(1000);
  });

  it('is refused with a short message, however long the invalid text is', () => {
    const long = 'x'.repeat(8000);
    for (const input of [
      policy({ [long]: 1 }),
      withRule({ decision: long }),
      policy({ mode: long }),
    ]) {
      expect(refusalOf(input).length).toBeLessThan(400);
    }
  });

  it('is either accepted or refused with policy.invalid, for any input', () => {
    const anything = fc.anything({ withNullPrototype: true, withBigInt: true, withDate: true });
    const almost = fc.record(
      { id: fc.anything(), version: fc.anything(), mode: fc.anything(), rules: fc.array(anything) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(anything, almost, fc.string(), fc.json()), (input) => {
        expect(refusalOf(input)).toMatch(/./);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('an accepted policy', () => {
  it('is returned exactly as submitted, from an object and from text', () => {
    fc.assert(
      fc.property(policies, (published) => {
        for (const { definition, hash } of published) {
          expect(parsePolicy(definition)).toEqual(JSON.parse(JSON.stringify(definition)));
          expect(policyHash(parsePolicy(definition))).toBe(hash);
          expect(policyHash(parsePolicy(JSON.stringify(definition)))).toBe(hash);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('has a hash that depends on explicit defaults, but not on spacing or key order', () => {
    const hash = policyHash(parsePolicy(policy()));
    const { id, version, rules } = policy();
    expect(policyHash(parsePolicy(JSON.stringify({ rules, version, id }, null, 4)))).toBe(hash);
    expect(policyHash(parsePolicy(policy({ mode: 'enforce' })))).not.toBe(hash);
    expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it('shares no object with its input', () => {
    const input = policy();
    const parsed = parsePolicy(input);
    (input.rules as Fields[]).length = 0;
    expect(parsed.rules).toHaveLength(1);
  });

  it('may use every decision, every operator and every approval term', () => {
    const rules = ruleDecisions.map((decision) => rule({ name: decision, decision }));
    expect(parsePolicy(policy({ rules })).rules).toHaveLength(8);
    for (const operator of operators) {
      const value = operator === 'in' || operator === 'not_in' ? [] : '1';
      expect(parsePolicy(withCondition({ operator, value })).rules).toHaveLength(1);
    }
    const approval = {
      channel: 'itsm',
      min_role: 'owner',
      quorum: 2,
      sla_seconds: 1,
      grant: { max_uses: 1_000, max_ttl_seconds: 2_592_000, scope: 'tool' },
    };
    expect(parsePolicy(withApproval(approval)).rules[0]?.approval).toEqual(approval);
  });

  it('can have exactly the maximum size in each respect', () => {
    const value = Array.from({ length: policyLimits.listEntries }, (_, index) => index);
    expect(parsePolicy(withCondition({ operator: 'in', value })).rules).toHaveLength(1);
    const rules = Array.from({ length: policyLimits.rules }, (_, index) =>
      rule({ name: `r${index}` }),
    );
    expect(parsePolicy(policy({ rules })).rules).toHaveLength(policyLimits.rules);
  });

  it('can have no rules, literals of any primitive type, and paths named like object internals', () => {
    expect(parsePolicy(policy({ rules: [] })).rules).toEqual([]);
    for (const value of ['', 0, -1.5, true, false, null, [], ['a', 1, null, [true]]]) {
      expect(parsePolicy(withCondition({ value })).rules).toHaveLength(1);
    }
    for (const path of ['args.__proto__', 'args.constructor.prototype', 'args.toString', 'tool']) {
      expect(parsePolicy(withCondition({ path })).rules).toHaveLength(1);
    }
  });
});
