import { z } from 'zod';
import type { DecisionAttempt, Vote } from '../../shared/approval/decide.ts';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { type RiskTier, riskTiers } from '../../shared/vocabulary/action.ts';
import type { ApprovalAction, ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import { grantScopes } from '../../shared/vocabulary/grant-terms.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { verifyVote } from '../platform/signed-store/approval-votes.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { readTextColumn } from '../platform/store/read-column.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { type ApprovalWithVotes, grantLimitsOf } from './approval-record.ts';

interface Store {
  readonly db: Transaction;
  readonly guard: RowGuard;
}

type Facts = Pick<DecisionAttempt, 'approval' | 'reauthenticated' | 'manifestApproved' | 'votes'>;

/**
 * Reads the facts needed to judge an act on an approval, in the transaction that stores the act.
 */
export async function factsFor(store: Store, approval: ApprovalWithVotes): Promise<Facts> {
  const { tenantId, userId } = approval;
  const user = await signedRows(store, 'directory_user').findUnique({
    where: { tenantId_id: { tenantId, id: userId } },
  });
  return {
    approval: {
      kind: approval.kind === 'tool' ? 'tool' : 'action',
      status: approval.status as ApprovalState,
      agentId: approval.agentId,
      userId,
      userEmail: user?.email ?? undefined,
      minRole: approval.minRole,
      quorum: approval.quorum,
      expiresAtMs: approval.expiresAt.getTime(),
      escalatedBy: approval.escalatedBy ?? undefined,
      requestedBy: approval.requestedBy,
      riskTier: riskTierOf(approval),
      grantLimits: grantLimitsOf(approval),
    },
    // `joinApproval` clears `reauthRequiredAt` when the action is requested with a newer passport
    // of the same user.
    reauthenticated: approval.reauthRequiredAt === null,
    manifestApproved: await isManifestApproved(store, approval),
    votes: await votesOn(store, approval),
  };
}

async function isManifestApproved(
  store: Store,
  { tenantId, tool: name }: Verified<Approval>,
): Promise<boolean> {
  const tools = signedRows(store, 'tool');
  const tool = await tools.findUnique({ where: { tenantId_name: { tenantId, name } } });
  return (
    tool !== null && tool.approvalStatus === 'approved' && tool.approvedHash === tool.manifestHash
  );
}

/** An unreadable risk tier counts as the highest. */
function riskTierOf({ riskTier }: Verified<Approval>): RiskTier {
  return riskTiers.find((known) => known === riskTier) ?? 'critical';
}

type VoteEvent = Pick<EvidenceEvent, 'data'>;

/** Text of a vote's event, sealed or still in the outbox. */
export const voteText = z.object({ data: z.custom<JsonObject>(isJsonObject) });

/**
 * Returns the digest and grant that a vote supports, read from the vote's event. The vote's
 * signature covers both, although only the ledger stores them.
 */
export function votedFor({ data }: VoteEvent) {
  const { effective_digest: digest, grant_asked: grantAsked } = data;
  return { effectiveDigest: digest === undefined ? undefined : String(digest), grantAsked };
}

const voteEvent = z.object({
  data: z.object({
    effective_digest: z.string().optional(),
    grant_asked: z
      .object({ scope: z.enum(grantScopes), ttl_seconds: z.number(), uses: z.number() })
      .transform(({ ttl_seconds, ...terms }) => ({ ...terms, ttlSeconds: ttl_seconds }))
      .optional(),
  }),
});

/**
 * Reads the earlier votes. Their content comes from the ledger or, if they are not sealed yet, from
 * the outbox. Reads the outbox first, because events move from the outbox to the ledger.
 */
async function votesOn(
  { db, guard }: Store,
  { tenantId, votes }: ApprovalWithVotes,
): Promise<readonly Vote[]> {
  const where = { tenantId, eventId: { in: votes.map((vote) => claimsOf(vote).eventId) } };
  const waiting = await db.eventOutbox.findMany({ where, select: { eventId: true, event: true } });
  const sealed = await db.evidenceRow.findMany({
    where,
    select: { eventId: true, canonical: true },
  });
  const texts = [
    ...waiting.map(({ eventId, event }) => [eventId, event] as const),
    ...sealed.map(({ eventId, canonical }) => [eventId, canonical] as const),
  ];
  const said = new Map(
    texts.map(
      ([id, text]) => [id, readTextColumn(voteText, text, 'evidence_row.canonical')] as const,
    ),
  );
  return votes.map((claimed) => {
    const event = said.get(claimsOf(claimed).eventId) ?? { data: {} };
    const vote = verifyVote(guard, claimed, votedFor(event));
    const { effective_digest: effectiveDigest, grant_asked: grant } = voteEvent.parse(event).data;
    return {
      principal: vote.principal,
      mintedBy: vote.mintedBy,
      role: vote.role,
      action: vote.action as ApprovalAction,
      effectiveDigest,
      grant,
    };
  });
}
