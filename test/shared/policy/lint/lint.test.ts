import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePolicies } from '../../../../shared/policy/engine/compile.ts';
import type {
  PolicyDefinition,
  PolicyRule,
} from '../../../../shared/policy/language/definition.ts';
import { lintPolicies } from '../../../../shared/policy/lint/lint.ts';
import { context, policies, publish } from '../../../support/policy/policy-arbitraries.ts';
import {
  conditions,
  kinds,
  lint,
  over,
  policy,
  refund,
  rule,
  type Terse,
  upTo,
} from '../../../support/policy/terse-policies.ts';

describe('linting one rule', () => {
  it('returns no finding for a correct rule', () => {
    expect(lint(rule('ok', 'allow', refund, upTo(50), ['environment', '==', 'prod']))).toEqual([]);
  });

  it.each<[string, Terse, RegExp]>([
    ['an object compared with a string', ['tool', '==', 'pay.refund'], /tool is an object/],
    ['an object in a list of strings', ['args', 'not_in', ['a']], /args is an object/],
    ['an empty list', ['args.currency', 'in', []], /An empty list contains no value/],
    ['a comparison of words with >', ['args.grade', '>', 'b'], /compares numbers, and "b" is none/],
    [
      'an impossible value of the environment',
      ['environment', '==', 'production'],
      /one of dev, staging, prod/,
    ],
    ['a number compared with a string', ['tool.name', '==', 5], /tool.name is a string, never 5/],
    ['unknown risk tiers', ['tool.risk_tier', 'in', ['severe', 'HIGH']], /one of low, medium/],
    ['an unknown root', ['tool_name', '==', 'pay.refund'], /No context has tool_name/],
    ['an unknown field', ['agent.role', '==', 'a'], /No context has agent.role/],
    [
      'a path through a string',
      ['environment.name', '==', 'prod'],
      /No context has environment.name/,
    ],
    [
      'a $ref to an unknown path',
      ['args.owner', '==', { $ref: 'user.name' }],
      /No context has user.name/,
    ],
  ])('reports a condition that never matches: %s', (_, condition, reason) => {
    const [finding, ...others] = lint(rule('r', 'deny', refund, condition));
    expect(others).toEqual([]);
    expect(finding).toMatchObject({
      kind: 'never_matches',
      rule: 'p/r',
      path: 'rules[0].when.all[1]',
      message: expect.stringMatching(reason),
    });
    expect(finding?.fix).not.toBe('');
  });

  it.each<[string, Terse[]]>([
    ['an inverted range', [over(100), upTo(50)]],
    ['an empty range', [over(100), ['args.amount', '<=', '100']]],
    ['two different values', [refund, ['tool.name', '==', 'pay.charge']]],
    [
      'a value outside its own list',
      [
        ['args.c', 'in', ['a', 'b']],
        ['args.c', 'not_in', ['b', 'a']],
      ],
    ],
    ['a value outside the range', [['args.amount', '==', 5], over(5)]],
    ['a word that its own pattern does not match', [refund, ['tool.name', 'matches', '^mail']]],
    [
      'two paths that must be equal and different',
      [
        ['args.a', '==', { $ref: 'args.b' }],
        ['args.a', '!=', { $ref: 'args.b' }],
      ],
    ],
  ])('reports contradicting conditions: %s', (_, all) => {
    expect(lint(rule('r', 'deny', ...all))).toMatchObject([
      { kind: 'never_matches', path: 'rules[0].when' },
    ]);
  });

  it.each<[string, Terse[]]>([
    ['a range of one value', [['args.amount', '>=', 5], upTo(5)]],
    ['a number and its text form', [['args.amount', '==', '5'], upTo(5)]],
    [
      'a list and a pattern',
      [
        ['tool.name', 'in', ['a', 'mail.send']],
        ['tool.name', 'matches', '^mail'],
      ],
    ],
    ['free-form constraints', [['passport.resource_constraints.max', '>', 5]]],
    [
      'two paths',
      [
        ['args.a', '<=', { $ref: 'args.b' }],
        ['args.a', '>=', { $ref: 'args.b' }],
      ],
    ],
  ])('does not report conditions that a context can satisfy: %s', (_, all) => {
    expect(kinds(lint(rule('r', 'deny', ...all)))).not.toContain('never_matches');
  });

  it('reports an allow rule whose != condition also matches if an optional value is absent', () => {
    const findings = lint(
      rule('r', 'allow', refund, ['args.region', '!=', 'us'], ['user.role', 'not_in', ['guest']]),
      rule('certain', 'allow', refund, ['environment', '!=', 'prod']),
      rule('refusing', 'deny', ['args.region', '!=', 'eu'], ['tool.name', '==', 'mail.send']),
    );
    expect(findings).toMatchObject([
      { kind: 'permits_by_difference', rule: 'p/r', path: 'rules[0].when.all[1]' },
      { kind: 'permits_by_difference', rule: 'p/r', path: 'rules[0].when.all[2]' },
    ]);
  });

  it.each(['TODO', 'n/a', '-', 'deny', 'xxx', '...'])(
    'reports the placeholder reason %s',
    (reason) => {
      expect(lint({ ...rule('r', 'deny', refund), reason })).toMatchObject([
        { kind: 'missing_reason', path: 'rules[0].reason' },
      ]);
    },
  );
});

describe('linting applies_to', () => {
  const scoped = (applies_to: PolicyDefinition['applies_to'], ...rules: PolicyRule[]) =>
    lintPolicies([policy(rules, { applies_to })]);

  it('reports empty lists', () => {
    expect(scoped({}, rule('r', 'allow', refund))).toMatchObject([
      { kind: 'unused_applies_to', rule: 'p', path: 'applies_to' },
    ]);
    expect(scoped({ tools: [], agents: [] }, rule('r', 'allow', refund))).toHaveLength(1);
  });

  it('reports a tool that no rule can match', () => {
    const findings = scoped({ tools: ['pay.refund', 'mail.send'] }, rule('r', 'allow', refund));
    expect(findings).toMatchObject([{ kind: 'unused_applies_to', path: 'applies_to.tools[1]' }]);
  });

  it('reports a rule for a tool outside applies_to', () => {
    const findings = scoped({ tools: ['mail.*'] }, rule('r', 'allow', refund));
    expect(findings).toMatchObject([{ kind: 'never_matches', path: 'rules[0].when' }]);
  });

  it('accepts the tools that its rules use', () => {
    const prod = rule('r', 'allow', ['environment', '==', 'prod']);
    expect(scoped({ tools: ['pay.refund', 'mail.*'], agents: ['1'] }, prod)).toEqual([]);
  });
});

describe('linting two rules', () => {
  it('reports an allow rule and a deny rule that can both match', () => {
    const findings = lint(
      rule('a', 'allow', refund, upTo(100)),
      rule('b', 'deny', refund, over(50)),
    );
    expect(findings).toMatchObject([
      { kind: 'contradiction', severity: 'warning', rule: 'p/a', other: 'p/b', path: 'rules[0]' },
    ]);
  });

  it('reports an allow rule with the same conditions as a deny rule, both as shadowed and as a contradiction', () => {
    const findings = lint(rule('a', 'allow', refund, upTo(9)), rule('b', 'deny', refund, upTo(9)));
    expect(kinds(findings)).toEqual(['shadowed_rule', 'contradiction']);
  });

  it('reports an allow rule with the same conditions as a deny rule in a different policy', () => {
    const one = policy([rule('a', 'allow', refund)], { id: 'one' });
    const two = policy([rule('b', 'deny', refund)], { id: 'two', mode: 'strict' });
    expect(lintPolicies([one, two])).toMatchObject([
      { kind: 'shadowed_rule', rule: 'one/a', other: 'two/b' },
      { kind: 'contradiction', rule: 'one/a', other: 'two/b' },
    ]);
  });

  it.each([
    ['pay.*', '*.refund', ['contradiction']],
    ['pay.*.get', 'pay.eu.*', ['contradiction']],
    ['pay.*', 'mail.*', []],
    ['pay.*', 'pay.*.refund', []],
  ])(
    'reports a contradiction between policies for %s and for %s only if a tool matches both globs',
    (one, two, expected) => {
      const scoped = (id: string, decision: 'allow' | 'deny', glob: string) =>
        policy([rule(id, decision, ['environment', '==', 'prod'])], {
          id,
          applies_to: { tools: [glob] },
        });
      const findings = lintPolicies([scoped('one', 'allow', one), scoped('two', 'deny', two)]);
      expect(kinds(findings)).toEqual(expected);
    },
  );

  it('reports a contradiction with severity info if a deny rule covers a part of an allow rule', () => {
    const mail: Terse = ['args.kind', '==', 'gift'];
    const findings = lint(rule('a', 'allow', refund), rule('b', 'deny', refund, mail));
    expect(findings).toMatchObject([{ kind: 'contradiction', severity: 'info' }]);
  });

  it('returns no finding if the conditions of the two rules exclude each other', () => {
    expect(lint(rule('a', 'allow', refund, upTo(50)), rule('b', 'deny', refund, over(50)))).toEqual(
      [],
    );
    const mail = rule('b', 'deny', ['tool.name', '==', 'mail.send']);
    expect(lint(rule('a', 'allow', refund), mail)).toEqual([]);
  });

  it('returns no finding if the conditions of a general deny rule and of an allow rule for one tool exclude each other', () => {
    const findings = lint(rule('a', 'allow', refund, upTo(50)), rule('b', 'deny', over(100)));
    expect(findings).toEqual([]);
  });

  it('reports no contradiction with policies in mode monitor or warn', () => {
    const allow = policy([rule('a', 'allow', refund)], { id: 'one' });
    for (const mode of ['monitor', 'warn'] as const) {
      const deny = policy([rule('b', 'deny', refund)], { id: 'two', mode });
      expect(lintPolicies([allow, deny])).toEqual([]);
    }
  });

  it.each<[string, PolicyRule, PolicyRule]>([
    [
      'a narrower range',
      rule('a', 'allow', refund, upTo(50)),
      rule('b', 'require_approval', refund, upTo(100)),
    ],
    [
      'a value of a list',
      rule('a', 'warn', refund),
      rule('b', 'deny', ['tool.name', 'in', ['pay.refund', 'x']]),
    ],
    [
      'a range without the value that the other rule excludes',
      rule('a', 'allow', refund, over(5)),
      rule('b', 'deny', refund, ['args.amount', '!=', 3]),
    ],
    [
      'a smaller exclusion',
      rule('a', 'require_approval', ['args.r', 'not_in', [1, 2]]),
      rule('b', 'deny', ['args.r', '!=', 1]),
    ],
    [
      'a word that the pattern matches',
      rule('a', 'allow', refund),
      rule('b', 'deny', ['tool.name', 'matches', '^pay']),
    ],
    [
      'one more condition',
      rule('a', 'allow', refund, ['args.n', 'contains', 'x'], upTo(1)),
      rule('b', 'require_reauth', ['args.n', 'contains', 'x']),
    ],
    [
      'one of the alternatives',
      rule('a', 'allow', refund),
      { ...rule('b', 'deny'), when: { any: conditions([upTo(1), refund]) } },
    ],
  ])('reports a rule that a more restrictive rule shadows: %s', (_, subject, rival) => {
    const shadowed = lint(subject, rival).filter(({ kind }) => kind === 'shadowed_rule');
    expect(shadowed).toMatchObject([{ rule: 'p/a', other: 'p/b' }]);
  });

  it.each<[string, PolicyRule, PolicyRule]>([
    [
      'a wider range',
      rule('a', 'allow', refund, upTo(100)),
      rule('b', 'require_approval', refund, upTo(50)),
    ],
    [
      'the limit itself',
      rule('a', 'allow', refund, ['args.amount', '>=', 5]),
      rule('b', 'deny', refund, over(5)),
    ],
    [
      'a text that is also in the range',
      rule('a', 'warn', refund, over(1)),
      rule('b', 'deny', refund, ['args.amount', '!=', '3']),
    ],
    ['a less restrictive rule', rule('a', 'deny', refund), rule('b', 'require_approval', refund)],
    [
      'another path',
      rule('a', 'warn', ['args.a', '==', 1]),
      rule('b', 'deny', ['args.b', '==', 1]),
    ],
    [
      'a test of a value that may be absent',
      rule('a', 'require_approval', ['args.a', '!=', 1]),
      rule('b', 'deny', ['args.a', '!=', 2]),
    ],
  ])('does not report a rule as shadowed: %s', (_, subject, rival) => {
    const shadowed = lint(subject, rival).filter(({ kind }) => kind === 'shadowed_rule');
    expect(shadowed.map(({ rule: label }) => label)).not.toContain('p/a');
  });
});

describe('linting arbitrary policies', () => {
  it('never reports a finding that is false for some context', () => {
    fc.assert(
      fc.property(
        policies,
        fc.array(context, { minLength: 20, maxLength: 20 }),
        (published, seen) => {
          const findings = lintPolicies(published.map(({ definition }) => definition));
          const all = published.map(({ id, definition }) =>
            publish(id, { ...definition, mode: 'enforce' }),
          );
          const set = compilePolicies(all);
          for (const at of seen) {
            const matched = set.evaluate(at).matchedRules;
            for (const { kind, rule: label, path, other = '' } of findings) {
              if (kind === 'never_matches' && path.endsWith('.when'))
                expect(matched).not.toContain(label);
              if (kind === 'shadowed_rule' && matched.includes(label))
                expect(matched).toContain(other);
            }
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('stops at its work limit, and reports that the remaining rules were not compared', () => {
    const rules = Array.from({ length: 2000 }, (_, index) =>
      rule(`r${index}`, index % 2 ? 'allow' : 'deny', over(index), ['args.x', 'in', [1, 2, 3]]),
    );
    const findings = lintPolicies([policy(rules)]);
    expect(findings.at(-1)).toMatchObject({ kind: 'not_compared', severity: 'info' });
  });
});
