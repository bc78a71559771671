import { describe, expect, it } from 'vitest';
import { sha256 } from '../../../../shared/crypto/hash.ts';
import { canonicalJson } from '../../../../shared/crypto/jcs.ts';
import { replayPolicy } from '../../../../shared/policy/engine/replay.ts';
import type { PolicyDefinition } from '../../../../shared/policy/language/definition.ts';
import { policyHash } from '../../../../shared/policy/language/hash.ts';

const refunds: PolicyDefinition = {
  id: 'refunds',
  version: 3,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'refund.small_in_scope',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'pay.refund' },
          { path: 'args.amount', operator: '<=', value: 50 },
          { path: 'args.customer', operator: '==', value: { $ref: 'resource.customer_id' } },
        ],
      },
    },
    {
      name: 'blocked',
      decision: 'require_reauth',
      reason: 'refund.reauth',
      when: { any: [{ path: 'args.blocked', operator: '!=', value: false }] },
    },
  ],
};
const context = {
  tool: { name: 'pay.refund' },
  args: { amount: '20', customer: 'c-1', blocked: false },
  resource: { customer_id: 'c-1' },
};

describe('replaying a policy', () => {
  it('returns the actual value, the expected value and the result of every condition', () => {
    const { verdict, policy_hash } = replayPolicy(refunds, context);
    expect(policy_hash).toBe(policyHash(refunds));
    expect(verdict).toEqual({
      decision: 'allow',
      reason_code: 'refund.small_in_scope',
      matched_rules: ['refunds/small'],
      evidence: [
        {
          rule: 'small',
          decision: 'allow',
          matched: true,
          condition_results: [
            {
              path: 'tool.name',
              operator: '==',
              expected: 'pay.refund',
              actual: 'pay.refund',
              result: true,
            },
            { path: 'args.amount', operator: '<=', expected: 50, actual: '20', result: true },
            { path: 'args.customer', operator: '==', expected: 'c-1', actual: 'c-1', result: true },
          ],
        },
        {
          rule: 'blocked',
          decision: 'require_reauth',
          matched: false,
          condition_results: [
            { path: 'args.blocked', operator: '!=', expected: false, actual: false, result: false },
          ],
        },
      ],
    });
  });

  it('omits absent values, and returns the decision of each rule separately from the verdict', () => {
    const { verdict } = replayPolicy(refunds, { tool: { name: 'pay.refund' } });
    expect(verdict).toMatchObject({ decision: 'deny', reason_code: 'refund.reauth' });
    const [small, blocked] = JSON.parse(JSON.stringify(verdict.evidence));
    expect(blocked).toMatchObject({ decision: 'require_reauth', matched: true });
    expect(small.condition_results[2]).toEqual({
      path: 'args.customer',
      operator: '==',
      result: false,
    });
  });

  it('returns the hash of the verdict as evidence hash; equal replays have equal hashes', () => {
    const replay = replayPolicy(refunds, context);
    expect(replayPolicy(structuredClone(refunds), structuredClone(context))).toEqual(replay);
    const received = JSON.parse(JSON.stringify(replay));
    expect(sha256(canonicalJson(received.verdict))).toBe(replay.evidence_hash);
    const other = replayPolicy(refunds, { ...context, args: { ...context.args, amount: 21 } });
    expect(other.verdict.decision).toBe('allow');
    expect(other.evidence_hash).not.toBe(replay.evidence_hash);
  });

  it('returns the decision of the policy, whatever the mode of the policy is', () => {
    for (const mode of ['monitor', 'warn', 'enforce', 'strict'] as const) {
      expect(replayPolicy({ ...refunds, mode }, context).verdict.decision).toBe('allow');
    }
  });

  it('matches no rule if applies_to excludes the context, but still returns the condition results', () => {
    const scoped = { ...refunds, applies_to: { tools: ['mail.send'] } };
    const { verdict } = replayPolicy(scoped, context);
    expect(verdict).toMatchObject({ reason_code: 'policy.no_match', matched_rules: [] });
    expect(verdict.evidence[0]).toMatchObject({ matched: false });
    expect(verdict.evidence[0]?.condition_results.every(({ result }) => result)).toBe(true);
  });

  it('accepts a context of any shape', () => {
    for (const odd of [{}, { tool: 'pay.refund' }, { tool: null, args: [] }, { args: 5 }]) {
      const { verdict } = replayPolicy(refunds, JSON.parse(JSON.stringify(odd)));
      expect(verdict.decision).toBe('deny');
    }
  });
});
