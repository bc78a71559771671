import type { DecisionOutcome } from '../../shared/approval/decide.ts';
import { keptText } from '../../shared/ledger/privacy/redact.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { sealEffectiveArgs } from './approval-args.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import type { ApprovalDecision, Grant } from './decision-request.ts';

/** One act of a decider on an approval that the transaction has locked. */
export interface Act {
  readonly caller: Caller;
  readonly decision: ApprovalDecision;
  readonly approval: ApprovalWithVotes;
}

interface Decided extends Act {
  readonly outcome: Extract<DecisionOutcome, { readonly ok: true }>;
  readonly eventId: string;
  readonly grant: Grant | undefined;
  readonly now: Date;
}

/** Stores the result of an act in the approval's row. */
export function storeDecision(
  services: Pick<Services, 'vault'>,
  notes: ChangeNotes,
  { caller, decision, approval, outcome, eventId, grant, now }: Decided,
): Promise<Verified<Approval>> {
  const { modifiedArgs: args } = decision;
  const isModified = outcome.status === 'modified' && args !== undefined;
  const closing = {
    decidedBy: caller.principal,
    decidedAt: now,
    comment: decision.comment ?? null,
    eventId,
  };
  return notes.rows('approval').update<Approval>(approval, {
    status: outcome.status,
    minRole: outcome.minRole,
    escalatedBy: outcome.escalatedBy ?? null,
    ...(decision.action === 'require_reauth' ? { reauthRequiredAt: now } : {}),
    ...(outcome.isFinal ? closing : {}),
    // A vote that does not change the status keeps the earlier comment.
    ...(outcome.status === approval.status ? {} : { agentComment: agentCommentOf(decision) }),
    ...(grant === undefined ? {} : grantData(grant)),
    deciderRole: outcome.deciders?.role ?? null,
    deciderCount: outcome.deciders?.count ?? null,
    ...(isModified ? { effectiveArgs: sealEffectiveArgs(services, approval, args) } : {}),
  });
}

/** Comment for the agent: why the action was denied, or what more information is needed. */
function agentCommentOf({ action, comment }: ApprovalDecision): string | null {
  const isForAgent = action === 'deny' || action === 'request_context';
  return isForAgent && comment !== undefined && comment.trim() !== '' ? keptText(comment) : null;
}

function grantData({ digest, expiresAt, standing }: Grant) {
  return {
    effectiveDigest: digest,
    grantExpiresAt: expiresAt,
    grantScope: standing?.scope ?? null,
    grantUses: standing?.uses ?? 1,
  };
}
