import { describe, expect, it } from 'vitest';
import { compilePolicies } from '../../../../shared/policy/engine/compile.ts';
import type { PolicyContext } from '../../../../shared/policy/language/context.ts';
import type { PolicyRule } from '../../../../shared/policy/language/definition.ts';
import { compilePattern } from '../../../../shared/policy/language/pattern.ts';
import { lintPolicies } from '../../../../shared/policy/lint/lint.ts';
import { sampleTexts } from '../../../../shared/policy/lint/pattern-sample.ts';
import { publish } from '../../../support/policy/policy-arbitraries.ts';
import {
  conditions,
  lint,
  over,
  policy,
  refund,
  rule,
  upTo,
} from '../../../support/policy/terse-policies.ts';

const slips = (...rules: PolicyRule[]) =>
  lint(...rules).filter(({ kind }) => kind === 'number_slips_past');

describe('the lint check for numeric limits that text values bypass', () => {
  it.each<[string, PolicyRule, string]>([
    ['a deny rule', rule('b', 'deny', refund, over(100)), 'rules[1].when.all[1]'],
    ['an approval rule', rule('b', 'require_approval', refund, over(100)), 'rules[1].when.all[1]'],
    ['a range', rule('b', 'deny', over(100), refund, upTo(200)), 'rules[1].when.all[0]'],
    ['a rule for any tool', rule('b', 'deny', over(100)), 'rules[1].when.all[0]'],
    [
      'an alternative',
      { ...rule('b', 'deny'), when: { any: conditions([['args.x', '==', 1], over(100)]) } },
      'rules[1].when.any[1]',
    ],
  ])('reports the limit in %s, with an example call', (_, refusing, path) => {
    const permitting = rule('a', 'allow', refund);
    const [found, ...others] = slips(permitting, refusing);
    expect(others).toEqual([]);
    expect(found).toMatchObject({ severity: 'warning', rule: 'p/b', other: 'p/a', path });
    const set = compilePolicies([publish(1, policy([permitting, refusing]))]);
    const { decision } = set.evaluate((found?.example ?? {}) as PolicyContext);
    expect(decision).toBe('allow');
  });

  it.each<[string, PolicyRule[]]>([
    [
      'the allow rule has a limit too',
      [rule('a', 'allow', refund, upTo(100)), rule('b', 'deny', refund, over(100))],
    ],
    [
      'the allow rule lists the values',
      [rule('a', 'allow', refund, ['args.amount', 'in', [1, 2]]), rule('b', 'deny', over(100))],
    ],
    [
      'the allow rule is for another tool',
      [rule('a', 'allow', ['tool.name', '==', 'mail']), rule('b', 'deny', refund, over(100))],
    ],
    [
      'the rule with the limit allows',
      [rule('a', 'allow', refund), rule('b', 'warn', over(5), refund)],
    ],
    [
      'the agent does not control the value',
      [
        rule('a', 'allow', refund),
        rule('b', 'deny', refund, ['passport.resource_constraints.n', '>', 5]),
      ],
    ],
    [
      'a third rule applies to the text values',
      [
        rule('a', 'allow', refund),
        rule('b', 'deny', refund, over(100)),
        rule('c', 'require_approval', refund, ['args.amount', 'not_in', [1, 2, 3]]),
      ],
    ],
  ])('reports nothing if %s', (_, rules) => {
    expect(slips(...rules)).toEqual([]);
  });

  it('reports the limit with severity info if no policy allows anything', () => {
    expect(slips(rule('b', 'deny', refund, over(100)))).toMatchObject([{ severity: 'info' }]);
  });
});

describe('the lint check for overly broad rules', () => {
  const part = (decision: PolicyRule['decision'], pattern: string) =>
    lint(rule('a', decision, refund, ['args.to', 'matches', pattern]))
      .filter(({ kind }) => kind === 'permits_by_part')
      .map(({ path }) => path);

  it.each(['@acme\\.com$', '^a', 'acme', '^a|b$', '^a$|^b$x', '(?i)^a'])(
    'reports an allow rule with the pattern %s, because the pattern is not anchored to the whole string',
    (pattern) => {
      expect(part('allow', pattern)).toEqual(['rules[0].when.all[1]']);
      expect(part('deny', pattern)).toEqual([]);
    },
  );

  it.each(['^[a-z]+@acme\\.com$', '^(a|b)$', '(?i)^a$', '\\A(x)\\z', '^a\\|b$'])(
    'reports nothing for the pattern %s, because the pattern is anchored to the whole string',
    (pattern) => expect(part('allow', pattern)).toEqual([]),
  );

  it('reports an allow rule that names no tool', () => {
    const dev = rule('a', 'allow', ['environment', '==', 'dev']);
    expect(lint(dev)).toMatchObject([{ kind: 'permits_any_tool', path: 'rules[0]' }]);
    expect(lintPolicies([policy([dev], { applies_to: { tools: ['crm.*'] } })])).toEqual([]);
  });
});

describe('rules for tools matched by globs', () => {
  const scoped = (id: string, tools: string[], one: PolicyRule) =>
    policy([one], { id, applies_to: { tools } });
  const large = rule('a', 'allow', over(5));
  const freeze = rule('b', 'deny', ['environment', '==', 'prod'], over(5));
  const all = rule('b', 'deny', over(5));

  it('are reported as shadowed by rules for a wider glob', () => {
    const findings = lintPolicies([
      scoped('one', ['crm.contacts.*', 'crm.a'], large),
      scoped('two', ['crm.**'], all),
    ]);
    expect(findings).toContainEqual(
      expect.objectContaining({ kind: 'shadowed_rule', rule: 'one/a', other: 'two/b' }),
    );
  });

  it('are not reported as shadowed by rules for a narrower glob or for another server', () => {
    for (const tools of [['crm.contacts.*'], ['mail.**']]) {
      const findings = lintPolicies([scoped('one', ['crm.**'], large), scoped('two', tools, all)]);
      expect(findings.filter(({ rule: label }) => label === 'one/a')).not.toContainEqual(
        expect.objectContaining({ kind: 'shadowed_rule' }),
      );
    }
  });

  it('are reported as contradicting, with an example tool that both globs match', () => {
    const findings = lintPolicies([
      scoped('one', ['crm.*'], large),
      scoped('two', ['crm.*'], freeze),
    ]);
    const found = findings.find(({ kind }) => kind === 'contradiction');
    expect(found).toMatchObject({ rule: 'one/a', example: { tool: { name: 'crm.x' } } });
  });
});

describe('sample texts for a pattern', () => {
  it.each([
    '^[a-z]+@acme\\.com$',
    '^(agent|fix)/[A-Za-z0-9_-]+$',
    '^CHG-[0-9]{4,}$',
    'a|b|c',
    '(?i)^drop\\s+table$',
    '^\\w+(\\.\\w+)*$',
    '^[^@]+$',
    '(?:x(y(z)?))w{2}',
  ])('match the pattern %s', (pattern) => {
    const texts = sampleTexts(pattern);
    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) expect(compilePattern(pattern).search(text)).toBe(true);
  });

  it.each(['(((', '[', '\\', '[[:alpha:]', 'a{1000000}', '(?P<x>', '{', '|||'])(
    'are bounded in number for any pattern: %s',
    (pattern) => expect(sampleTexts(pattern).join('').length).toBeLessThan(2000),
  );
});
