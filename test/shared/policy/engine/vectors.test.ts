import { describe, expect, it } from 'vitest';
import { compilePolicies } from '../../../../shared/policy/engine/compile.ts';
import { parsePolicy } from '../../../../shared/policy/language/validate.ts';
import { publish } from '../../../support/policy/policy-arbitraries.ts';
import { interpret } from '../../../support/policy/policy-interpreter.ts';
import { loadPolicyVectors } from '../../../support/policy/policy-vectors.ts';

const vectors = loadPolicyVectors();

describe('the policy vectors', () => {
  it.each(vectors)(
    'give the expected decision with the compiled policies: $name',
    ({ policies, context, expect: expected }) => {
      const published = policies.map((policy, index) => publish(index + 1, parsePolicy(policy)));
      const set = compilePolicies(published);
      const outcome = set.evaluate(context);
      const { decision, reason, matched, observed = [], approval, deciding, strict } = expected;
      const target = { tool: String(context.tool?.name), agentId: String(context.agent?.id) };
      expect(set.strict.covers(target)).toBe(strict ?? false);
      expect(outcome).toMatchObject({ decision, reasonCode: reason, matchedRules: matched });
      expect(outcome.observed.map(({ rule }) => rule)).toEqual(observed);
      if (approval) expect(outcome.approval).toEqual(approval);
      if (deciding) {
        const source = published.find(({ definition }) => definition.id === deciding);
        expect(outcome.policyHash).toBe(source?.hash);
      }
      if (reason === 'policy.no_match') expect(outcome.policyHash).toBeUndefined();
      else expect(matched).toContain(outcome.decidedBy);
    },
  );

  it.each(vectors)(
    'give the expected decision with the reference interpreter: $name',
    ({ policies, context, expect: e }) => {
      const published = policies.map((policy, index) => publish(index + 1, policy));
      const { decision, reason, matched, observed = [] } = e;
      expect(interpret(published, context)).toEqual({ decision, reason, matched, observed });
    },
  );

  it('include the required number of vectors, each with a unique name', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(80);
    expect(new Set(vectors.map(({ name }) => name)).size).toBe(vectors.length);
  });
});
