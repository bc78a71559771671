import { answersServer } from '../../shared/decision/grant.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import type { Services } from '../core/services.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { SignedClient } from '../platform/signed-store/tables.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { proofOf } from './approval-proof.ts';
import { deliveredMs } from './open-states.ts';

/** Maximum of active standing grants of one agent; each sidecar of the agent receives them all. */
export const standingMax = 100;

/** Filter for rows of standing grants that can still be used. */
export function activeGrantFilter(nowMs: number) {
  return {
    kind: 'action',
    status: 'approved',
    usedAt: null,
    grantRevokedAt: null,
    grantScope: { not: null },
    grantExpiresAt: { gt: new Date(nowMs) },
  } as const;
}

/**
 * Returns the standing grants that may cover an action, with their ledger proof. Grants for exactly
 * this action come first; within each group, grants that expire first come first.
 */
export async function standingGrantsFor(
  { clock, guard }: Pick<Services, 'clock' | 'guard'>,
  db: SignedClient & Pick<Transaction, 'evidenceRow'>,
  { action, actionDigest }: { readonly action: Action; readonly actionDigest: string },
): Promise<readonly { readonly approval: Verified<Approval>; readonly proof: ApprovalProof }[]> {
  const { tenantId, agentId, userId, tool } = action;
  const nowMs = clock.now();
  const isDenied = await wasDenied(db, { tenantId, actionDigest, nowMs });
  const found = await signedRows({ db, guard }, 'approval').findValid({
    where: {
      tenantId,
      agentId,
      userId,
      tool,
      ...activeGrantFilter(nowMs),
      OR: [
        { grantScope: 'action', effectiveDigest: actionDigest },
        ...(isDenied || answersServer(action) ? [] : [{ grantScope: 'tool' }]),
      ],
    },
    orderBy: [{ grantScope: 'asc' }, { grantExpiresAt: 'asc' }, { id: 'asc' }],
    take: standingMax,
  });
  const grants: { readonly approval: Verified<Approval>; readonly proof: ApprovalProof }[] = [];
  for (const approval of found) {
    const proof = await proofOf(db, approval);
    if (proof?.standing !== undefined) grants.push({ approval, proof });
  }
  return grants;
}

/**
 * Returns whether the last decision on exactly this action was a denial that sidecars still
 * receive. A grant for any arguments does not override such a denial.
 */
async function wasDenied(
  db: SignedClient,
  {
    tenantId,
    actionDigest,
    nowMs,
  }: { readonly tenantId: string; readonly actionDigest: string; readonly nowMs: number },
): Promise<boolean> {
  const [last] = await claimedRows(db, 'approval').findClaims(['status'], {
    where: {
      tenantId,
      kind: 'action',
      actionDigest,
      status: { in: ['approved', 'modified', 'denied'] },
      decidedAt: { gt: new Date(nowMs - deliveredMs) },
    },
    orderBy: [{ decidedAt: 'desc' }, { id: 'desc' }],
    take: 1,
  });
  return last?.status === 'denied';
}
