import type { Services } from '../core/services.ts';
import type { Delivery } from '../platform/store/generated/client.ts';

/** Longer than any attempt takes: a worker that died leaves its deliveries to others after this. */
export const leaseMs = 60_000;

/** How many of one tenant are under way at once: a receiver that stalls holds up no other tenant's. */
const perTenantMax = 4;

interface Wanted {
  readonly max: number;
  /** Undefined: of all tenants. */
  readonly tenantId?: string | undefined;
}

/**
 * Takes deliveries that are due, each for one worker alone, however many replicas ask at once.
 * The attempt is counted with the taking: what kills its worker does not come back for ever.
 */
export async function claimDeliveries(
  { db, clock }: Pick<Services, 'db' | 'clock'>,
  { max, tenantId }: Wanted,
): Promise<readonly Delivery[]> {
  const now = new Date(clock.now()).toISOString();
  const until = new Date(clock.now() + leaseMs).toISOString();
  const claimed = await db.$queryRaw<{ readonly id: string }[]>`
    with busy as (
      select tenant_id, count(*) as n from delivery
      where status = 'pending' and leased_until > ${now}::timestamptz group by tenant_id
    ), ranked as (
      select d.id, coalesce(busy.n, 0)
        + row_number() over (partition by d.tenant_id order by d.next_attempt_at, d.id) as place
      from delivery d left join busy on busy.tenant_id = d.tenant_id
      where d.status = 'pending' and d.next_attempt_at <= ${now}::timestamptz
        and (d.leased_until is null or d.leased_until <= ${now}::timestamptz)
        and (${tenantId ?? null}::text is null or d.tenant_id = ${tenantId ?? null}::text)
    ), free as (
      select d.id from delivery d
      where d.id in (select id from ranked where place <= ${perTenantMax}) and d.status = 'pending'
        and (d.leased_until is null or d.leased_until <= ${now}::timestamptz)
      order by d.next_attempt_at, d.id limit ${max}
      for update skip locked
    )
    update delivery d set leased_until = ${until}::timestamptz, attempts = d.attempts + 1
    from free where d.id = free.id
    returning d.id`;
  if (claimed.length === 0) return [];
  return db.delivery.findMany({ where: { id: { in: claimed.map(({ id }) => id) } } });
}
