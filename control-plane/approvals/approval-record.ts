import { z } from 'zod';
import type { ApprovalRecord } from '../../shared/contract/approvals.ts';
import type { RiskTier } from '../../shared/vocabulary/action.ts';
import type { ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import { type GrantLimits, grantScopes } from '../../shared/vocabulary/grant-terms.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimsOf, type Unverified, type Verified } from '../platform/signed-store/verified.ts';
import type { Approval, ApprovalVote } from '../platform/store/generated/client.ts';
import { openEffectiveArgs, openProposal } from './approval-args.ts';

/**
 * The approval itself is verified. `factsFor` verifies each vote together with its event, because
 * only the ledger stores the content of a vote.
 */
export type ApprovalWithVotes = Verified<
  Approval & { readonly votes: readonly Unverified<ApprovalVote>[] }
>;

/** An approval as the API shows it. Only callers who may decide see the decrypted arguments. */
export function approvalRecord(
  services: Pick<Services, 'vault'>,
  { permissions }: Caller,
  row: ApprovalWithVotes,
): ApprovalRecord {
  const args = permissions.has('approval.decide') ? argsOf(services, row) : {};
  return {
    id: row.id,
    kind: row.kind === 'tool' ? 'tool' : 'action',
    status: row.status as ApprovalState,
    agent_id: row.agentId,
    user_id: row.userId,
    tool: row.tool,
    resource: row.resource,
    risk_tier: row.riskTier as RiskTier,
    reason_code: row.reasonCode,
    summary: row.summary,
    goal: row.goal ?? undefined,
    chain_id: row.chainId,
    policy_hash: row.policyHash ?? undefined,
    tool_manifest_hash: row.manifestHash ?? undefined,
    action_digest: row.actionDigest,
    channels: row.channels,
    min_role: row.minRole,
    quorum: row.quorum,
    ...args,
    requested_by: [...row.requestedBy],
    requested_at: row.requestedAt.toISOString(),
    expires_at: row.expiresAt.toISOString(),
    ...outcomeOf(row),
    votes: row.votes.map((vote) => voteRecord(claimsOf(vote))),
  };
}

function argsOf(services: Pick<Services, 'vault'>, row: Approval) {
  const proposal = openProposal(services, row);
  return {
    proposed_args: proposal?.args,
    proposed_mcp: proposal?.mcp,
    effective_args: openEffectiveArgs(services, row),
  };
}

function outcomeOf(row: Approval) {
  return {
    effective_digest: row.effectiveDigest ?? undefined,
    escalated_by: row.escalatedBy ?? undefined,
    decided_by: row.decidedBy ?? undefined,
    decided_at: row.decidedAt?.toISOString(),
    comment: row.comment ?? undefined,
    event_hash: row.eventHash ?? undefined,
    grant_expires_at: row.grantExpiresAt?.toISOString(),
    used_at: row.usedAt?.toISOString(),
    ...grantOf(row),
  };
}

function grantOf(row: Approval) {
  const limits = grantLimitsOf(row);
  return {
    grant_limits: limits && {
      max_uses: limits.uses,
      max_ttl_seconds: limits.ttlSeconds,
      scope: limits.scope,
    },
    grant: row.grantExpiresAt === null ? undefined : grantRecord(row, row.grantExpiresAt),
  };
}

/** Returns the terms and the usage of a grant. An approval without terms covers one call. */
export function grantRecord(
  row: Pick<
    Approval,
    'grantScope' | 'grantUses' | 'usesSpent' | 'grantRevokedAt' | 'grantRevokedBy'
  >,
  expiresAt: Date,
) {
  return {
    standing: row.grantScope !== null,
    scope: row.grantScope === 'tool' ? ('tool' as const) : ('action' as const),
    uses: row.grantUses,
    uses_spent: row.usesSpent,
    expires_at: expiresAt.toISOString(),
    revoked_at: row.grantRevokedAt?.toISOString(),
    revoked_by: row.grantRevokedBy ?? undefined,
  };
}

function voteRecord(vote: ApprovalVote) {
  return {
    principal: vote.principal,
    role: vote.role,
    action: vote.action,
    source: vote.source,
    comment: vote.comment ?? undefined,
    voted_at: vote.votedAt.toISOString(),
  };
}

const storedLimits = z.object({
  uses: z.number().int().min(1),
  ttlSeconds: z.number().int().min(1),
  scope: z.enum(grantScopes),
});

/** Returns the limits of a standing grant, which the rules set when the approval was opened. */
export function grantLimitsOf({
  grantLimits,
}: Pick<Approval, 'grantLimits'>): GrantLimits | undefined {
  return grantLimits === null ? undefined : storedLimits.parse(grantLimits);
}
