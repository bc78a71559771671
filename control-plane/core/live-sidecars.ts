import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** A sidecar counts as live for this long after its last report. */
const liveMs = 10 * 60_000;

export interface LiveSidecar {
  readonly id: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
}

/**
 * Sidecars that are enrolled, not revoked, and reported recently. The rows are unverified: use them
 * for scheduling only.
 */
export async function liveSidecars(
  db: Pick<Transaction, 'sidecar'>,
  nowMs: number,
): Promise<readonly LiveSidecar[]> {
  const since = new Date(nowMs - liveMs);
  const columns = ['id', 'tenantId', 'agentId', 'userId'] as const;
  return claimedRows(db, 'sidecar').findClaims(columns, {
    where: {
      revokedAt: null,
      OR: [{ lastSeenAt: { gt: since } }, { enrolledAt: { gt: since } }],
    },
    orderBy: [{ tenantId: 'asc' }, { id: 'asc' }],
  });
}
