import type { Transaction } from '../platform/store/transaction.ts';

/** How long after its last sign of life a sidecar is still looked after. */
const liveMs = 10 * 60_000;

export interface LiveSidecar {
  readonly id: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
}

/** The sidecars that are enrolled, not revoked, and were seen lately. */
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
