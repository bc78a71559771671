import { type RiskTier, riskTiers } from '../vocabulary/action.ts';
import { type GrantLimits, narrowestGrant } from '../vocabulary/grant-terms.ts';
import { stricterRole } from '../vocabulary/roles.ts';
import type { ApprovalTerms } from '../vocabulary/verdict.ts';

/**
 * Combines two sets of terms into one set. A decision that satisfies the combined terms satisfies
 * both given sets. `slaSeconds` is taken from `one`.
 */
export function stricterTerms(one: ApprovalTerms, other: ApprovalTerms): ApprovalTerms {
  const grant = narrower(one.grant, other.grant);
  return {
    channels: [...new Set([...one.channels, ...other.channels])],
    minRole: stricterRole(one.minRole, other.minRole),
    quorum: Math.max(one.quorum, other.quorum),
    slaSeconds: one.slaSeconds,
    ...(grant === undefined ? {} : { grant }),
  };
}

/**
 * Returns limits for a standing grant that satisfy both given limits. If either is undefined, the
 * result is undefined: the approval covers a single call only.
 */
export function narrower(
  one: GrantLimits | undefined,
  other: GrantLimits | undefined,
): GrantLimits | undefined {
  return narrowestGrant([one, other]);
}

export function higherRisk(one: RiskTier, other: RiskTier): RiskTier {
  return riskTiers.indexOf(one) >= riskTiers.indexOf(other) ? one : other;
}
