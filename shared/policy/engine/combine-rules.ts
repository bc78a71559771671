import { jointGrantLimits } from '../../vocabulary/grant-terms.ts';
import type { ApprovalTerms, Decision } from '../../vocabulary/verdict.ts';
import { approvalRoles, type RuleApproval } from '../language/definition.ts';
import { ruleEffects, severity } from '../language/severity.ts';
import type { PolicyOutcome } from './policy-set.ts';
import type { RuleSource } from './rule-source.ts';

/** Combines the rules that matched. They must be sorted by policy id, then by rule index. */
export function combine(matched: readonly RuleSource[]): PolicyOutcome {
  const enforcing = matched.filter(isEnforcing);
  const winner = mostRestrictive(enforcing);
  if (winner === undefined) return noMatch(matched);
  const decision = ruleDecision(winner);
  const caution = decision === 'allow' ? mostRestrictive(matched.filter(isCaution)) : undefined;
  if (caution !== undefined) return cautioned(matched, caution);
  return {
    decision,
    reasonCode: winner.rule.reason,
    policyHash: winner.policyHash,
    decidedBy: winner.label,
    matchedRules: enforcing.map(({ label }) => label),
    observed: observe(matched.filter((source) => !isEnforcing(source))),
    approval: decision === 'require_approval' ? jointTerms(enforcing) : undefined,
    nextSteps: ruleEffects[winner.rule.decision].nextSteps,
  };
}

/** The outcome if no deciding rule matched: the action is denied. */
function noMatch(matched: readonly RuleSource[]): PolicyOutcome {
  return {
    decision: 'deny',
    reasonCode: 'policy.no_match',
    matchedRules: [],
    observed: observe(matched),
    nextSteps: [],
  };
}

/**
 * The outcome if the enforcing policies allow the action, but a policy in mode `warn` would have
 * refused it.
 */
function cautioned(matched: readonly RuleSource[], caution: RuleSource): PolicyOutcome {
  const counts = (source: RuleSource) => isEnforcing(source) || isCaution(source);
  return {
    decision: 'warn',
    reasonCode: caution.rule.reason,
    policyHash: caution.policyHash,
    decidedBy: caution.label,
    matchedRules: matched.filter(counts).map(({ label }) => label),
    observed: observe(matched.filter((source) => !counts(source))),
    nextSteps: [],
  };
}

/** True if the rule's policy decides, and does not only observe. */
export function isEnforcing({ policyMode }: RuleSource): boolean {
  return policyMode === 'enforce' || policyMode === 'strict';
}

/** True for a refusal by a policy that only warns. */
export function isCaution(source: RuleSource): boolean {
  return source.policyMode === 'warn' && severity(ruleDecision(source)) > severity('warn');
}

/** The decision of a matching rule. */
export function ruleDecision({ rule }: RuleSource): Decision {
  return ruleEffects[rule.decision].decision;
}

/** The most restrictive source. If several are equally restrictive, the first of them. */
function mostRestrictive(sources: readonly RuleSource[]): RuleSource | undefined {
  let winner: RuleSource | undefined;
  for (const source of sources) {
    if (winner && severity(ruleDecision(source)) <= severity(ruleDecision(winner))) continue;
    winner = source;
  }
  return winner;
}

function observe(sources: readonly RuleSource[]): PolicyOutcome['observed'] {
  return sources.map(({ label, rule }) => ({
    rule: label,
    decision: rule.decision,
    reason: rule.reason,
  }));
}

/**
 * The combined terms: a human decision must satisfy every matching rule that requires an approval.
 */
function jointTerms(sources: readonly RuleSource[]): ApprovalTerms {
  const approvals = sources
    .filter((source) => ruleDecision(source) === 'require_approval')
    .map(({ rule }): RuleApproval => rule.approval ?? {});
  const channels = new Set<string>();
  let quorum = 1;
  let slaSeconds = Infinity;
  for (const approval of approvals) {
    if (approval.channel !== undefined) channels.add(approval.channel);
    quorum = Math.max(quorum, approval.quorum ?? 1);
    slaSeconds = Math.min(slaSeconds, approval.sla_seconds ?? Infinity);
  }
  return {
    channels: [...channels].sort(),
    minRole: highestRole(approvals),
    quorum,
    slaSeconds: slaSeconds === Infinity ? undefined : slaSeconds,
    grant: jointGrantLimits(approvals.map(({ grant }) => grant)),
  };
}

function highestRole(approvals: readonly RuleApproval[]): string {
  const asked = new Set(approvals.map(({ min_role }) => min_role));
  return approvalRoles.findLast((role) => asked.has(role)) ?? approvalRoles[0];
}
