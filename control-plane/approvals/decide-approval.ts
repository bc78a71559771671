import { type DecisionOutcome, judgeDecision } from '../../shared/approval/decide.ts';
import { isOpen, stateAt } from '../../shared/approval/states.ts';
import { GatewayError } from '../../shared/errors.ts';
import { newId } from '../../shared/ids.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { type ChangeNotes, commitChange, lockFor } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services, Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';
import { sealArgs } from './approval-args.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import { settleTool } from './approve-tool.ts';
import { noteDecision } from './decided-event.ts';
import type { ApprovalDecision, Grant } from './decision.ts';
import { effectiveDigest } from './effective-digest.ts';
import { expireApproval } from './expire-approvals.ts';
import { factsFor } from './load-approval-facts.ts';
import { settleEventHashes } from './settle-event-hashes.ts';

/** How long a grant may be used after it was given. */
const grantSeconds = 3600;

interface DecidedApproval {
  readonly approval: Approval;
  readonly votesMissing: number;
  readonly eventId: string;
  /** Hash of the ledger row that binds decider, action and arguments. */
  readonly eventHash: string;
}

/**
 * Applies one act of a decider to an approval. The row is held while it is judged, so that of
 * two deciders at once exactly one moves it and the other is refused.
 */
export async function decideApproval(
  services: Services,
  caller: Caller,
  decision: ApprovalDecision,
): Promise<DecidedApproval> {
  assertArgsFit(decision);
  await expireIfOverdue(services, caller, decision);
  const { result, sealed } = await commitChange(services, caller.tenantId, async (tx, notes) => {
    const approval = await lockApproval(tx, caller.tenantId, decision.id);
    return decideLocked(services, tx, notes, { caller, decision, approval });
  });
  await settleEventHashes(services, caller.tenantId);
  const [decided] = sealed;
  if (decided === undefined) throw new Error('a decision was made without its event');
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

/** What nobody decided in time is expired for good, also when the decider comes late. */
async function expireIfOverdue(
  services: Services,
  { tenantId }: Caller,
  { id, action }: ApprovalDecision,
): Promise<void> {
  if (action === 'expire') return;
  const row = await services.db.approval.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (row === null || !isOverdue(row, services.clock.now())) return;
  await commitChange(services, tenantId, (tx, notes) => expireApproval(services, tx, notes, row));
}

function isOverdue(row: Approval, nowMs: number): boolean {
  const status = row.status as Parameters<typeof isOpen>[0];
  const expiresAtMs = row.expiresAt.getTime();
  return isOpen(status) && stateAt({ status, expiresAtMs }, nowMs) === 'expired';
}

async function lockApproval(
  tx: Transaction,
  tenantId: string,
  id: number,
): Promise<ApprovalWithVotes> {
  const where = { tenantId_id: { tenantId, id } };
  const found = await tx.approval.findUnique({ where, select: { kind: true, tool: true } });
  if (found === null) throw new GatewayError('approval.not_found');
  // In the order in which ingesting a tool takes them: the tool first, then its approval.
  if (found.kind === 'tool') await lockFor(tx, tenantId, `tool ${found.tool}`);
  await tx.$queryRaw`select id from approval where tenant_id = ${tenantId} and id = ${id} for update`;
  return tx.approval.findUniqueOrThrow({
    where,
    include: { votes: { orderBy: [{ votedAt: 'asc' }, { id: 'asc' }] } },
  });
}

interface Act {
  readonly caller: Caller;
  readonly decision: ApprovalDecision;
  readonly approval: ApprovalWithVotes;
}

async function decideLocked(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  act: Act,
): Promise<Omit<DecidedApproval, 'eventHash'>> {
  const { caller, decision, approval } = act;
  const nowMs = services.clock.now();
  const facts = await factsFor(tx, approval);
  const digest = await effectiveDigest(services, tx, act);
  const outcome = judgeDecision({
    ...facts,
    decider: caller,
    action: decision.action,
    effectiveDigest: digest,
    nowMs,
  });
  if (!outcome.ok) throw new GatewayError(outcome.code, { message: outcome.message });
  const now = new Date(nowMs);
  const isGranted = outcome.status === 'approved' || outcome.status === 'modified';
  const grant = isGranted && approval.kind === 'action' ? grantOf(digest, now) : undefined;
  const { id: eventId } = await noteDecision(notes, { ...act, outcome, digest, grant });
  await recordVote(tx, act, { eventId, now });
  const stored = await store(services, tx, { ...act, outcome, eventId, grant, now });
  if (approval.sidecarId !== null) notes.sections(sidecarSection(approval.sidecarId));
  if (approval.kind === 'tool') {
    const { principal } = caller;
    await settleTool(tx, notes, approval, { status: outcome.status, principal, now });
  }
  return { approval: stored, votesMissing: outcome.votesMissing, eventId };
}

function grantOf(digest: string | undefined, now: Date): Grant {
  if (digest === undefined) throw new Error('a grant needs the digest of what it grants');
  return { digest, expiresAt: new Date(now.getTime() + grantSeconds * 1000) };
}

async function recordVote(
  tx: Transaction,
  { caller, decision, approval }: Act,
  { eventId, now }: { readonly eventId: string; readonly now: Date },
): Promise<void> {
  await tx.approvalVote.create({
    data: {
      id: newId('av', now.getTime()),
      tenantId: caller.tenantId,
      approvalId: approval.id,
      principal: caller.principal,
      role: caller.role,
      action: decision.action,
      source: decision.source,
      comment: decision.comment ?? null,
      eventId,
      votedAt: now,
    },
  });
}

type Accepted = Extract<DecisionOutcome, { readonly ok: true }>;

async function store(
  services: Services,
  tx: Transaction,
  {
    caller,
    decision,
    approval,
    outcome,
    eventId,
    grant,
    now,
  }: Act & {
    readonly outcome: Accepted;
    readonly eventId: string;
    readonly grant: Grant | undefined;
    readonly now: Date;
  },
): Promise<Approval> {
  const { tenantId, id } = approval;
  const { modifiedArgs: args } = decision;
  const isModified = outcome.status === 'modified' && args !== undefined;
  return tx.approval.update({
    where: { tenantId_id: { tenantId, id } },
    data: {
      status: outcome.status,
      minRole: outcome.minRole,
      escalatedBy: outcome.escalatedBy ?? null,
      ...(decision.action === 'require_reauth' ? { reauthRequiredAt: now } : {}),
      ...(outcome.isFinal
        ? {
            decidedBy: caller.principal,
            decidedAt: now,
            comment: decision.comment ?? null,
            eventId,
          }
        : {}),
      ...(grant === undefined
        ? {}
        : { effectiveDigest: grant.digest, grantExpiresAt: grant.expiresAt }),
      ...(isModified
        ? { effectiveArgs: sealArgs(services, approval, { which: 'effective', args }) }
        : {}),
    },
  });
}
