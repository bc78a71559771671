import { describe, expect, it } from 'vitest';
import { replayPolicy } from '../../../../shared/policy/engine/replay.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
} from '../../../../shared/policy/language/definition.ts';
import { parsePolicy } from '../../../../shared/policy/language/validate.ts';
import { lintPolicies } from '../../../../shared/policy/lint/lint.ts';

const policyOf = (...all: readonly PolicyCondition[]): PolicyDefinition => ({
  id: 'budget',
  version: 1,
  rules: [{ name: 'few', decision: 'allow', reason: 'calls.few', when: { all } }],
});
const below = (path: string, value: PolicyCondition['value'] = 5): PolicyCondition => ({
  path,
  operator: '<',
  value,
});

describe('a policy path that begins with usage', () => {
  it.each([
    'usage.calls_1h',
    'usage.calls_24h',
    'usage.sum_24h.amount',
    'usage.sum_24h.order.lines.0.price',
  ])('is accepted on either side of a condition: %s', (path) => {
    expect(() => parsePolicy(policyOf(below(path)))).not.toThrow();
    expect(() => parsePolicy(policyOf(below('args.limit', { $ref: path })))).not.toThrow();
  });

  it.each([
    'usage',
    'usage.calls',
    'usage.calls_2h',
    'usage.calls_1h.refund',
    'usage.sum_24h',
    'usage.sum_1h.amount',
    'usage.Calls_1h',
  ])('is refused if it refers to no usage counter: %s', (path) => {
    const message =
      /is not one of usage\.calls_1h, usage\.calls_24h, usage\.sum_24h\.<path below args>/;
    expect(() => parsePolicy(policyOf(below(path)))).toThrow(message);
    expect(() => parsePolicy(policyOf(below('args.limit', { $ref: path })))).toThrow(message);
  });

  it('is refused with an error that explains how sums are named', () => {
    expect(() => parsePolicy(policyOf(below('usage.sum_24h.args.amount')))).toThrow(
      'rules[0].when.all[0].path: "usage.sum_24h.args.amount": name the summed value by its path below args, as in usage.sum_24h.amount',
    );
  });
});

describe('linting a budget', () => {
  const scoped = (policy: PolicyDefinition) => ({ ...policy, applies_to: { tools: ['pay'] } });

  it('returns no finding for a correct budget', () => {
    const paths = ['usage.calls_1h', 'usage.calls_24h', 'usage.sum_24h.order.total'];
    expect(lintPolicies([scoped(policyOf(...paths.map((path) => below(path))))])).toEqual([]);
  });

  it('reports a budget that can never match', () => {
    const findings = lintPolicies([
      scoped(policyOf(below('usage.calls_1h'), { ...below('usage.calls_1h', 9), operator: '>' })),
    ]);
    expect(findings).toContainEqual(
      expect.objectContaining({ kind: 'never_matches', rule: 'budget/few' }),
    );
  });
});

it('the replay of a policy reads usage from the given context', () => {
  const policy = policyOf(below('usage.calls_1h'), below('usage.sum_24h.order.total', 100));
  const done = (calls_1h: number, total: number) =>
    replayPolicy(policy, { usage: { calls_1h, sum_24h: { 'order.total': total } } }).verdict
      .decision;
  expect([done(4, 99), done(5, 99), done(4, 100)]).toEqual(['allow', 'deny', 'deny']);
});
