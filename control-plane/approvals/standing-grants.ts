import { answersServer } from '../../shared/decision/grant.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import type { Services } from '../core/services.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { proofOf } from './approval-proof.ts';
import { deliveredMs } from './open-states.ts';

/** How many standing grants of one agent can be in force: they travel to all of its sidecars. */
export const standingMax = 100;

/** The condition on rows of standing grants that can still be used. */
export function activeGrantFilter(nowMs: number) {
  return {
    ...{ kind: 'action', status: 'approved', usedAt: null, grantRevokedAt: null },
    grantScope: { not: null },
    grantExpiresAt: { gt: new Date(nowMs) },
  } as const;
}

/**
 * The standing grants that may cover an action, with what the ledger proves of each: those for
 * this very action first, of the same reach the one that runs out first.
 */
export async function standingGrantsFor(
  { clock, guard }: Pick<Services, 'clock' | 'guard'>,
  tx: Pick<Transaction, 'approval' | 'evidenceRow'>,
  { action, actionDigest }: { readonly action: Action; readonly actionDigest: string },
): Promise<readonly { readonly approval: Approval; readonly proof: ApprovalProof }[]> {
  const { tenantId, agentId, userId, tool } = action;
  const nowMs = clock.now();
  const isDenied = await wasDenied(tx, { tenantId, actionDigest, nowMs });
  const found = await tx.approval.findMany({
    where: {
      ...{ tenantId, agentId, userId, tool, ...activeGrantFilter(nowMs) },
      OR: [
        { grantScope: 'action', effectiveDigest: actionDigest },
        ...(isDenied || answersServer(action) ? [] : [{ grantScope: 'tool' }]),
      ],
    },
    orderBy: [{ grantScope: 'asc' }, { grantExpiresAt: 'asc' }, { id: 'asc' }],
    take: standingMax,
  });
  const grants: { readonly approval: Approval; readonly proof: ApprovalProof }[] = [];
  for (const approval of found) {
    const proof = await proofOf({ guard }, tx, approval);
    if (proof?.standing !== undefined) grants.push({ approval, proof });
  }
  return grants;
}

/**
 * Whether a human's last word on this very action was no, as long as sidecars are told of it: a
 * grant for whatever the arguments does not overrule that.
 */
async function wasDenied(
  tx: Pick<Transaction, 'approval'>,
  {
    tenantId,
    actionDigest,
    nowMs,
  }: { readonly tenantId: string; readonly actionDigest: string; readonly nowMs: number },
): Promise<boolean> {
  const last = await tx.approval.findFirst({
    where: {
      ...{ tenantId, kind: 'action', actionDigest },
      status: { in: ['approved', 'modified', 'denied'] },
      decidedAt: { gt: new Date(nowMs - deliveredMs) },
    },
    orderBy: [{ decidedAt: 'desc' }, { id: 'desc' }],
    select: { status: true },
  });
  return last?.status === 'denied';
}
