import { describe, expect, it } from 'vitest';
import { parsePolicy } from '../../../shared/policy/language/validate.ts';
import { readCaseFile } from '../../../shared/policy-cases/read-cases.ts';
import { runCases } from '../../../shared/policy-cases/run-cases.ts';
import { condition, policy, rule } from '../../support/policy/policy-drafts.ts';
import { loadPolicyVectors } from '../../support/policy/policy-vectors.ts';

const read = (text: string) => readCaseFile({ name: 'a.cases.yaml', bytes: Buffer.from(text) });
const refusal = (text: string) => {
  try {
    read(text);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was refused');
};

const amountUpTo = (value: number) => condition({ path: 'args.amount', operator: '<=', value });
const refunds = parsePolicy(
  policy({
    rules: [
      rule({ when: { all: [condition(), amountUpTo(100)] } }),
      rule({
        name: 'staging is free',
        reason: 'refund.staging',
        when: { all: [condition({ path: 'environment', value: 'staging' })] },
      }),
    ],
  }),
);
const watching = parsePolicy(
  policy({
    id: 'watching',
    mode: 'monitor',
    rules: [rule({ name: 'all', decision: 'deny', reason: 'watch.all' })],
  }),
);

describe('running policy cases', () => {
  const run = (text: string, policies = [refunds]) => runCases(read(text).cases, policies);

  it('makes the same decision on an action as preflight, with defaults for omitted fields', () => {
    const results = run(`
cases:
  - name: small
    action: { tool: pay.refund, args: { amount: 20 } }
    expect: { decision: allow, reason_code: refund.small_in_scope, matched_rules: [refunds/small] }
  - name: large
    action: { tool: pay.refund, args: { amount: 101 } }
    expect: { decision: deny, reason_code: policy.no_match, matched_rules: [] }
  - name: large in staging
    action: { tool: pay.refund, args: { amount: 101 }, environment: staging, mode: enforce }
    expect: { decision: allow }
  - name: without a passport strict mode refuses
    action: { tool: pay.refund, args: { amount: 20 }, mode: strict, agent_name: bot }
    expect: { decision: deny, reason_code: passport.missing }
  - name: a refusal in warn is a warning
    action: { tool: pay.refund, args: { amount: 500 }, mode: warn }
    expect: { decision: warn, reason_code: policy.no_match }
`);
    expect(results.filter(({ passed }) => !passed)).toEqual([]);
  });

  it('evaluates the context given in a case without changes', () => {
    const [result] = run(`
cases:
  - name: staging
    context: { tool: { name: other }, environment: staging }
    expect: { decision: allow, reason_code: refund.staging }
`);
    expect(result?.passed).toBe(true);
  });

  it('reports every field that differs; the reason is compared only if the case states a reason', () => {
    const [result, other] = run(`
cases:
  - name: wrong
    action: { tool: pay.refund, args: { amount: 20 } }
    expect: { decision: deny, reason_code: x.y, matched_rules: [a/b] }
  - name: decision alone
    action: { tool: pay.refund, args: { amount: 20 } }
    expect: { decision: allow }
`);
    expect(result).toEqual({
      name: 'wrong',
      passed: false,
      actual: {
        decision: 'allow',
        reason_code: 'refund.small_in_scope',
        matched_rules: ['refunds/small'],
        observed: [],
      },
      differences: [
        { field: 'decision', expected: 'deny', actual: 'allow' },
        { field: 'reason_code', expected: 'x.y', actual: 'refund.small_in_scope' },
        { field: 'matched_rules', expected: ['a/b'], actual: ['refunds/small'] },
      ],
    });
    expect(other?.passed).toBe(true);
  });

  it('compares the observed rules of a policy in mode monitor', () => {
    const [result] = run(
      `
cases:
  - name: watched
    action: { tool: pay.refund, args: { amount: 20 } }
    expect: { decision: allow, observed: [watching/all] }
`,
      [refunds, watching],
    );
    expect(result?.passed).toBe(true);
  });

  it('passes for every policy vector that is converted to a case file', () => {
    const vectors = loadPolicyVectors();
    for (const { name, policies, context, expect: wanted } of vectors) {
      const text = JSON.stringify({
        cases: [
          {
            name,
            context,
            expect: {
              decision: wanted.decision,
              reason_code: wanted.reason,
              matched_rules: wanted.matched,
              observed: wanted.observed ?? [],
            },
          },
        ],
      });
      const [result] = runCases(read(text).cases, policies.map(parsePolicy));
      expect(result?.differences, name).toEqual([]);
    }
    expect(vectors.length).toBeGreaterThanOrEqual(80);
  });
});

describe('reading a malformed case file', () => {
  const one = (body: string) => `cases:\n  - name: a\n${body.replaceAll(/^/gm, '    ')}`;
  const action = 'action: { tool: t }';
  const expectation = 'expect: { decision: allow }';
  it.each([
    ['no cases', 'policies: [a.yaml]', 'cases: required'],
    ['an empty list', 'cases: []', 'at least one case'],
    ['an unknown key', 'case: []', 'unknown key'],
    ['a misspelt part', one(`acton: {}\n${expectation}`), ':3: cases[0].acton: unknown key'],
    ['neither action nor context', one(expectation), ':2: cases[0]: must have either'],
    ['both action and context', one(`${action}\ncontext: {}\n${expectation}`), 'must have either'],
    ['no expectation', one(action), 'cases[0].expect: required'],
    ['an unknown decision', one(`${action}\nexpect: { decision: ok }`), ':4: cases[0].expect.dec'],
    ['an unknown expectation', one(`${action}\nexpect: { decision: allow, reason: x }`), 'unknown'],
    ['no tool', one(`action: { args: {} }\n${expectation}`), 'cases[0].action.tool: required'],
    ['a passport', one(`action: { tool: t, passport: x }\n${expectation}`), 'unknown key'],
    [
      'an id that is a number',
      one(`action: { tool: t, agent_id: 7 }\n${expectation}`),
      'not a str',
    ],
    ['an unknown mode', one(`action: { tool: t, mode: x }\n${expectation}`), 'is not one of'],
    ['an unknown root', one(`context: { tools: {} }\n${expectation}`), 'no context has this field'],
    [
      'an unknown field',
      one(`context: { user: { rolle: x } }\n${expectation}`),
      'user.rolle: no co',
    ],
    [
      'a number instead of text',
      one(`context: { agent: { id: 7 } }\n${expectation}`),
      'is not text',
    ],
    [
      'an unknown value',
      one(`context: { environment: production }\n${expectation}`),
      'dev, staging',
    ],
    ['text instead of an object', one(`context: { tool: t }\n${expectation}`), 'is not an object'],
    [
      'a duplicate name',
      `${one(`${action}\n${expectation}`)}\n${one(`${action}\n${expectation}`).replace('cases:\n', '')}`,
      ':5: cases[1].name: "a" is already the name',
    ],
  ])('fails because of %s', (_what, text, message) => {
    expect(refusal(text)).toMatch(/^a\.cases\.yaml:\d+: /);
    expect(refusal(text)).toContain(message);
  });
});
