import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Delivery } from '../platform/store/generated/client.ts';

interface DeliveryQuery {
  readonly status?: 'pending' | 'delivered' | 'dead' | undefined;
  readonly limit: number;
  /** Only deliveries that were queued before the delivery with this id. */
  readonly cursor?: string | undefined;
}

/** Returns one page of the outbound queue, newest first, and the health of each channel. */
export async function listDeliveries(
  { db }: Services,
  { tenantId }: Caller,
  { status, limit, cursor }: DeliveryQuery,
) {
  const found = await db.delivery.findMany({
    where: {
      tenantId,
      ...(status === undefined ? {} : { status }),
      ...(cursor === undefined ? {} : { id: { lt: cursor } }),
    },
    // The id sorts by creation time, because it begins with this time (shared/base/ids.ts).
    orderBy: { id: 'desc' },
    take: limit + 1,
  });
  const rows = found.slice(0, limit);
  const last = found.length > limit ? rows.at(-1) : undefined;
  return { rows, nextCursor: last?.id ?? null, channels: await channelHealth(db, tenantId) };
}

async function channelHealth(db: Services['db'], tenantId: string) {
  const counts = await db.delivery.groupBy({
    by: ['channel', 'status'],
    where: { tenantId },
    _count: true,
  });
  const installs = await db.install.findMany({
    where: { tenantId, channel: { in: [...new Set(counts.map(({ channel }) => channel))] } },
    select: { channel: true, status: true },
  });
  const names = [...new Set(counts.map(({ channel }) => channel))].sort();
  return names.map((channel) => {
    const count = (status: string) =>
      counts.find((row) => row.channel === channel && row.status === status)?._count ?? 0;
    const install = installs.find((row) => row.channel === channel);
    return {
      channel,
      active: install?.status === 'active',
      pending: count('pending'),
      delivered: count('delivered'),
      dead: count('dead'),
    };
  });
}

/** A delivery as the API shows it, without its payload. */
export function deliveryRecord(row: Delivery) {
  return {
    id: row.id,
    channel: row.channel,
    type: row.kind,
    subject: row.subject,
    status: row.status as 'pending' | 'delivered' | 'dead',
    attempts: row.attempts,
    replays: row.replays,
    last_status: row.lastStatus ?? undefined,
    last_error: row.lastError ?? undefined,
    next_attempt_at: row.status === 'pending' ? row.nextAttemptAt.toISOString() : undefined,
    created_at: row.createdAt.toISOString(),
    delivered_at: row.deliveredAt?.toISOString(),
    dead_at: row.deadAt?.toISOString(),
  };
}
