import type { DecisionOutcome } from '../../shared/approval/decide.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { GrantLimits } from '../../shared/vocabulary/grant-terms.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { ApprovalDecision, Grant } from './decision-request.ts';

interface Decided {
  readonly caller: Caller;
  readonly decision: ApprovalDecision;
  readonly approval: Verified<Approval>;
  readonly outcome: Extract<DecisionOutcome, { readonly ok: true }>;
  /** Digest of the action that an approving act covers. */
  readonly digest: string | undefined;
  readonly grant: Grant | undefined;
}

/**
 * Records the event of an act on an approval. This event proves the grant: approval-proof.ts reads
 * status, digest and expiry from the event's ledger row.
 */
export async function recordDecision(
  notes: ChangeNotes,
  { caller, decision, approval, outcome, digest, grant }: Decided,
): Promise<EvidenceEvent> {
  return notes.event({
    type: 'approval.decided',
    chainId: approval.chainId,
    agentId: approval.kind === 'action' ? approval.agentId : undefined,
    userId: approval.userId,
    tool: approval.tool,
    resource: approval.resource,
    decision: decision.action,
    reasonCode: outcome.status === 'denied' ? 'approval.denied' : undefined,
    data: {
      action: decision.action,
      action_digest: approval.actionDigest,
      approval_id: approval.id,
      by: caller.principal,
      comment: decision.comment,
      deciders: outcome.deciders && {
        count: outcome.deciders.count,
        lowest_role: outcome.deciders.role,
      },
      effective_digest: digest,
      from: approval.status,
      grant: grant?.standing && standingData(approval, grant.standing),
      grant_asked: outcome.grantAsked && termsData(outcome.grantAsked),
      grant_expires_at: grant?.expiresAt.toISOString(),
      kind: approval.kind,
      manifest_hash: approval.manifestHash ?? undefined,
      role: caller.role,
      source: decision.source,
      status: outcome.status,
      votes_missing: outcome.votesMissing,
    },
  });
}

function termsData({ scope, ttlSeconds, uses }: GrantLimits) {
  return { scope, ttl_seconds: ttlSeconds, uses };
}

/**
 * Returns the terms of a standing grant, and the role and quorum that its deciders had to satisfy.
 */
function standingData({ minRole, quorum }: Verified<Approval>, terms: GrantLimits) {
  return { min_role: minRole, quorum, ...termsData(terms) };
}
