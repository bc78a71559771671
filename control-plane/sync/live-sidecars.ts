import type { Transaction } from '../platform/store/transaction.ts';

/** How long after its last report a sidecar counts as live. */
const liveMs = 10 * 60_000;

export interface LiveSidecar {
  readonly id: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
}

/** Sidecars that are enrolled, not revoked, and reported recently. */
export async function liveSidecars(
  db: Pick<Transaction, 'sidecar'>,
  nowMs: number,
): Promise<readonly LiveSidecar[]> {
  const since = new Date(nowMs - liveMs);
  return db.sidecar.findMany({
    where: {
      revokedAt: null,
      OR: [{ lastSeenAt: { gt: since } }, { enrolledAt: { gt: since } }],
    },
    orderBy: [{ tenantId: 'asc' }, { id: 'asc' }],
    select: { id: true, tenantId: true, agentId: true, userId: true },
  });
}
