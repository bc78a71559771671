import type { PolicyOutcome, PolicySet } from '../../../shared/policy/engine/policy-set.ts';
import { noStrictPolicies } from '../../../shared/policy/engine/strict-scope.ts';
import { noUsage } from '../../../shared/policy/engine/usage-index.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type { ApprovalTerms, Decision } from '../../../shared/vocabulary/verdict.ts';

const hash = `sha256:${'a'.repeat(64)}`;

/** Returns a policy set that has the same outcome for every context. */
export function alwaysPolicies(
  decision: Decision,
  reasonCode: string,
  approval?: ApprovalTerms,
): PolicySet {
  const outcome: PolicyOutcome = {
    decision,
    reasonCode,
    policyHash: hash,
    matchedRules: [`test/${decision}`],
    observed: [],
    approval,
    nextSteps: [],
  };
  return { hash, size: 1, usage: noUsage, strict: noStrictPolicies, evaluate: () => outcome };
}

/** A set without published policies, which denies every call. */
export const noPolicies: PolicySet = {
  hash,
  size: 0,
  usage: noUsage,
  strict: noStrictPolicies,
  evaluate: () => ({
    decision: 'deny',
    reasonCode: 'policy.no_match',
    matchedRules: [],
    observed: [],
    nextSteps: [],
  }),
};

/**
 * Policies that throw an error when they are evaluated, for tests in which an earlier check must
 * refuse the call.
 */
export const unaskedPolicies: PolicySet = {
  hash,
  size: 1,
  usage: noUsage,
  strict: noStrictPolicies,
  evaluate: (_context: PolicyContext) => {
    throw new Error('policies were asked although an earlier stage refuses');
  },
};
