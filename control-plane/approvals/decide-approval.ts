import { judgeDecision } from '../../shared/approval/decide.ts';
import { newId } from '../../shared/base/ids.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { type GrantLimits, grantSecondsByDefault } from '../../shared/vocabulary/grant-terms.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { createVote } from '../platform/signed-store/approval-votes.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import { settleTool } from './approve-tool.ts';
import { bumpApprovalSections } from './bump-approval-sections.ts';
import { recordDecision } from './decided-event.ts';
import type { ApprovalDecision, Grant } from './decision-request.ts';
import { effectiveDigest } from './effective-digest.ts';
import { expireIfOverdue } from './expire-approvals.ts';
import { factsFor, votedFor } from './load-approval-facts.ts';
import { notifyApproval } from './notify-approval.ts';
import { activeGrantFilter, standingMax } from './standing-grants.ts';
import { type Act, storeDecision } from './store-decision.ts';
import { storeDecisionHashes } from './store-decision-hashes.ts';

interface DecidedApproval {
  readonly approval: Verified<Approval>;
  readonly votesMissing: number;
  readonly eventId: string;
  /** Hash of the ledger row that binds decider, action and arguments. */
  readonly eventHash: string;
}

/**
 * Applies one act of a decider to an approval. Locks the row meanwhile, so that concurrent acts are
 * judged one after another.
 */
export async function decideApproval(
  services: Services,
  caller: Caller,
  decision: ApprovalDecision,
): Promise<DecidedApproval> {
  assertArgsFit(decision);
  // Expires an overdue approval in a separate transaction, so that the expiry persists although
  // this act is refused.
  if (decision.action !== 'expire') await expireIfOverdue(services, caller.tenantId, decision.id);
  const { result, sealed } = await commitChange(services, caller.tenantId, async (tx, notes) => {
    const approval = await lockApproval(tx, notes, caller.tenantId, decision.id);
    return decideLocked(services, tx, notes, { caller, decision, approval });
  });
  await storeDecisionHashes(services, caller.tenantId);
  const [decided] = sealed;
  if (decided === undefined) throw new Error('the decision recorded no event');
  return { ...result, eventHash: decided.eventHash };
}

function assertArgsFit({ action, modifiedArgs }: ApprovalDecision): void {
  if ((action === 'modify') === (modifiedArgs !== undefined)) return;
  throw new GatewayError('args.schema_invalid', {
    message:
      action === 'modify'
        ? 'modified_args: modify needs the arguments to approve instead.'
        : `modified_args: ${action} takes none.`,
  });
}

async function lockApproval(
  tx: Transaction,
  notes: ChangeNotes,
  tenantId: string,
  id: number,
): Promise<ApprovalWithVotes> {
  const approvals = notes.rows('approval');
  const where = { tenantId, id };
  const [found] = await approvals.findClaims(['kind', 'tool'], { where });
  if (found === undefined) throw new GatewayError('approval.not_found');
  // Locks the tool first and then its approval, in the same order as tool ingestion.
  if (found.kind === 'tool') await lockFor(tx, tenantId, `tool ${found.tool}`);
  await approvals.lock(where);
  return approvals.findExisting({
    where: { tenantId_id: where },
    include: { votes: { orderBy: [{ votedAt: 'asc' }, { id: 'asc' }] } },
  });
}

async function decideLocked(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  act: Act,
): Promise<Omit<DecidedApproval, 'eventHash'>> {
  const { caller, decision, approval } = act;
  const nowMs = services.clock.now();
  const facts = await factsFor({ db: tx, guard: services.guard }, approval);
  const digest = await effectiveDigest(services, tx, act);
  const outcome = judgeDecision({
    ...facts,
    decider: caller,
    action: decision.action,
    effectiveDigest: digest,
    grant: decision.grant,
    nowMs,
  });
  if (!outcome.ok) throw new GatewayError(outcome.code, { message: outcome.message });
  const now = new Date(nowMs);
  const isGranted = outcome.status === 'approved' || outcome.status === 'modified';
  const grant =
    isGranted && approval.kind === 'action'
      ? grantOf(digest, { now, standing: outcome.grant })
      : undefined;
  if (grant?.standing !== undefined) await assertRoomForGrant(notes, approval, nowMs);
  const event = await recordDecision(notes, { ...act, outcome, digest, grant });
  const { id: eventId } = event;
  await recordVote(services, tx, act, { event, now });
  const stored = await storeDecision(services, notes, { ...act, outcome, eventId, grant, now });
  await bumpApprovalSections(notes, stored);
  await notifyApproval(services, tx, 'approval.decided', stored);
  if (approval.kind === 'tool') {
    const { principal } = caller;
    await settleTool(tx, notes, approval, { status: outcome.status, principal, now });
  }
  return { approval: stored, votesMissing: outcome.votesMissing, eventId };
}

async function assertRoomForGrant(
  notes: ChangeNotes,
  { tenantId, agentId }: Verified<Approval>,
  nowMs: number,
): Promise<void> {
  const active = { tenantId, agentId, ...activeGrantFilter(nowMs) };
  const standing = await notes.rows('approval').count(active);
  if (standing < standingMax) return;
  throw new GatewayError('approval.grant_refused', {
    message: `The agent has ${standingMax} active standing grants; revoke some first.`,
  });
}

function grantOf(
  digest: string | undefined,
  { now, standing }: { readonly now: Date; readonly standing: GrantLimits | undefined },
): Grant {
  if (digest === undefined) throw new Error('a standing grant has no digest of the granted action');
  const seconds = standing?.ttlSeconds ?? grantSecondsByDefault;
  return { digest, expiresAt: new Date(now.getTime() + seconds * 1000), standing };
}

async function recordVote(
  { guard }: Pick<Services, 'guard'>,
  tx: Transaction,
  { caller, decision, approval }: Act,
  { event, now }: { readonly event: EvidenceEvent; readonly now: Date },
): Promise<void> {
  const data = {
    id: newId('av', now.getTime()),
    tenantId: caller.tenantId,
    approvalId: approval.id,
    principal: caller.principal,
    role: caller.role,
    mintedBy: [...(caller.mintedBy ?? [])],
    action: decision.action,
    source: decision.source,
    comment: decision.comment ?? null,
    eventId: event.id,
    votedAt: now,
  };
  await createVote(tx, guard, { data, votedFor: votedFor(event) });
}
