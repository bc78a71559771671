import { z } from 'zod';
import type { DecisionAttempt, Vote } from '../../shared/approval/decide.ts';
import { grantScopes } from '../../shared/approval/grant-terms.ts';
import type { ApprovalAction, ApprovalState } from '../../shared/approval/states.ts';
import { type RiskTier, riskTiers } from '../../shared/decision/action.ts';
import type { Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import { grantLimitsOf } from './grant-limits.ts';

type Facts = Pick<DecisionAttempt, 'approval' | 'reauthenticated' | 'manifestApproved' | 'votes'>;

/** What judging an act on an approval depends on, read inside the transaction that will store it. */
export async function factsFor(tx: Transaction, approval: ApprovalWithVotes): Promise<Facts> {
  const { tenantId, userId } = approval;
  const user = await tx.directoryUser.findUnique({
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
      riskTier: riskTierOf(approval),
      grantLimits: grantLimitsOf(approval),
    },
    // Cleared when the same action came with a passport of its user issued since; see open-approval.ts.
    reauthenticated: approval.reauthRequiredAt === null,
    manifestApproved: await isManifestApproved(tx, approval),
    votes: await votesOn(tx, approval),
  };
}

async function isManifestApproved(
  tx: Transaction,
  { tenantId, tool: name }: Approval,
): Promise<boolean> {
  const tool = await tx.tool.findUnique({ where: { tenantId_name: { tenantId, name } } });
  return (
    tool !== null && tool.approvalStatus === 'approved' && tool.approvedHash === tool.manifestHash
  );
}

/** A risk that cannot be read is the highest. */
function riskTierOf({ riskTier }: Approval): RiskTier {
  return riskTiers.find((known) => known === riskTier) ?? 'critical';
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
 * The earlier acts; what exactly a vote was for stands in the ledger alone, or in its outbox while
 * the vote of a moment ago waits to be sealed. The outbox is read first: what leaves it meanwhile
 * is in the ledger.
 */
async function votesOn(
  tx: Transaction,
  { tenantId, votes }: ApprovalWithVotes,
): Promise<readonly Vote[]> {
  const where = { tenantId, eventId: { in: votes.map(({ eventId }) => eventId) } };
  const waiting = await tx.eventOutbox.findMany({ where, select: { eventId: true, event: true } });
  const sealed = await tx.evidenceRow.findMany({
    where,
    select: { eventId: true, canonical: true },
  });
  const texts = [
    ...waiting.map(({ eventId, event }) => [eventId, event] as const),
    ...sealed.map(({ eventId, canonical }) => [eventId, canonical] as const),
  ];
  const said = new Map(
    texts.map(([id, text]) => [id, voteEvent.parse(JSON.parse(text)).data] as const),
  );
  return votes.map(({ principal, action, eventId }) => ({
    principal,
    action: action as ApprovalAction,
    effectiveDigest: said.get(eventId)?.effective_digest,
    grant: said.get(eventId)?.grant_asked,
  }));
}
