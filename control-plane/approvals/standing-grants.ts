import type { Action } from '../../shared/decision/action.ts';
import type { ApprovalProof } from '../../shared/decision/state.ts';
import type { Services, Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';
import { proofOf } from './approval-proof.ts';

/** How many standing grants of one agent can be in force: they travel to all of its sidecars. */
export const standingMax = 100;

/** The condition on rows of standing grants that can still be used. */
export function inForce(nowMs: number) {
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
  { clock }: Pick<Services, 'clock'>,
  tx: Pick<Transaction, 'approval' | 'evidenceRow'>,
  { action, actionDigest }: { readonly action: Action; readonly actionDigest: string },
): Promise<readonly { readonly approval: Approval; readonly proof: ApprovalProof }[]> {
  const { tenantId, agentId, userId, tool } = action;
  const found = await tx.approval.findMany({
    where: {
      ...{ tenantId, agentId, userId, tool, ...inForce(clock.now()) },
      OR: [{ grantScope: 'tool' }, { effectiveDigest: actionDigest }],
    },
    orderBy: [{ grantScope: 'asc' }, { grantExpiresAt: 'asc' }, { id: 'asc' }],
    take: standingMax,
  });
  const grants: { readonly approval: Approval; readonly proof: ApprovalProof }[] = [];
  for (const approval of found) {
    const proof = await proofOf(tx, approval);
    if (proof?.standing !== undefined) grants.push({ approval, proof });
  }
  return grants;
}
