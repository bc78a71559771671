import { sidecarSection } from '../../shared/sync/sections.ts';
import { isOpen, stateAt } from '../../shared/vocabulary/approval-states.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Unverified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { notifyApproval } from './notify-approval.ts';
import { openStates } from './open-states.ts';
import { storeDecisionHashes } from './store-decision-hashes.ts';

const batchSize = 200;

/** Expires every overdue approval of a tenant; returns the count. */
export async function expireApprovals(services: Services, tenantId: string): Promise<number> {
  let total = 0;
  for (;;) {
    const expired = await expireBatch(services, tenantId);
    total += expired;
    if (expired < batchSize) return total;
  }
}

async function expireBatch(services: Services, tenantId: string): Promise<number> {
  const overdue = {
    tenantId,
    status: { in: openStates },
    expiresAt: { lte: new Date(services.clock.now()) },
  };
  // Avoids a transaction in the common case of no overdue approval.
  const query = { where: overdue, take: 1 };
  const [any] = await claimedRows(services.db, 'approval').findClaims(['id'], query);
  if (any === undefined) return 0;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const rows = await notes.rows('approval').findUnverified({
      where: overdue,
      orderBy: { id: 'asc' },
      take: batchSize,
    });
    let expired = 0;
    for (const row of rows) if (await expireApproval(services, tx, notes, row)) expired += 1;
    return expired;
  });
  return result;
}

/**
 * Expires one approval and records the event, in the caller's transaction. Returns false if the
 * approval was already decided or expired.
 */
export async function expireApproval(
  services: Pick<Services, 'clock' | 'vault'>,
  tx: Transaction,
  notes: ChangeNotes,
  row: Unverified<Approval>,
): Promise<boolean> {
  const approval = claimsOf(row);
  const { id, status } = approval;
  const changes = { status: 'expired', decidedAt: new Date(services.clock.now()) };
  // A row that fails its integrity check also expires, but is not signed again.
  const retiring = { changes, forged: 'keep' } as const;
  const expired = await notes.rows('approval').retire(row, { status }, retiring);
  if (expired === undefined) return false;
  if (approval.sidecarId !== null) notes.sections(sidecarSection(approval.sidecarId));
  await notes.event({
    type: 'approval.expired',
    chainId: approval.chainId,
    agentId: approval.kind === 'action' ? approval.agentId : undefined,
    userId: approval.userId,
    tool: approval.tool,
    resource: approval.resource,
    reasonCode: 'approval.expired',
    data: { action_digest: approval.actionDigest, approval_id: id, from: status },
  });
  await notifyApproval(services, tx, 'approval.expired', expired);
  return true;
}

/** Expires one approval if it is overdue. Called before an approval is read or decided. */
export async function expireIfOverdue(
  services: Services,
  tenantId: string,
  id: number,
): Promise<void> {
  const approvals = signedRows(services, 'approval');
  const row = await approvals.findUniqueUnverified({ where: { tenantId_id: { tenantId, id } } });
  if (row === null || !isOverdue(claimsOf(row), services.clock.now())) return;
  await commitChange(services, tenantId, (tx, notes) => expireApproval(services, tx, notes, row));
}

function isOverdue(row: Approval, nowMs: number): boolean {
  const status = row.status as Parameters<typeof isOpen>[0];
  const expiresAtMs = row.expiresAt.getTime();
  return isOpen(status) && stateAt({ status, expiresAtMs }, nowMs) === 'expired';
}

const intervalMs = 15_000;

/**
 * Runs in the background: expires overdue approvals, and stores the hashes of decisions that were
 * sealed late. A failed round is logged, and the next round retries.
 */
export function startExpirySweep(services: Services): Rounds {
  return startRounds(() => sweep(services), intervalMs);
}

async function sweep(services: Services): Promise<void> {
  try {
    const tenants = await claimedRows(services.db, 'tenant').findClaims(['id'], {});
    for (const { id } of tenants) {
      await expireApprovals(services, id);
      await storeDecisionHashes(services, id);
    }
  } catch (err) {
    services.log.error({ err }, 'could not expire overdue approvals');
  }
}
