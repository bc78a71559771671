import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { installPlace, payloadPlace } from '../platform/outbound/enqueue.ts';
import type { Delivery, Prisma } from '../platform/store/generated/client.ts';
import type { Channel, SendResult } from './channel.ts';
import { nextAttemptMs } from './schedule.ts';

export type AttemptOutcome = 'delivered' | 'rescheduled' | 'dead_lettered';

interface AttemptDeps extends Pick<Services, 'db' | 'clock' | 'vault' | 'log'> {
  readonly channels: readonly Channel[];
}

const errorLengthMax = 500;

/** Makes one attempt at a claimed delivery, and records the result. */
export async function attemptDelivery(
  services: Services,
  channels: readonly Channel[],
  delivery: Delivery,
): Promise<AttemptOutcome> {
  const result = await send({ ...services, channels }, delivery);
  const outcome = await settle(services, delivery, result);
  if (result.outcome === 'gone') await disableChannel(services, delivery);
  return outcome;
}

async function send(
  { db, clock, vault, channels }: AttemptDeps,
  { tenantId, channel: name, id, sealed }: Delivery,
): Promise<SendResult> {
  const channel = channels.find((known) => known.name === name);
  const install = await db.install.findUnique({
    where: { tenantId_channel: { tenantId, channel: name } },
  });
  if (channel === undefined || install?.sealed == null || install.status !== 'active') {
    return { outcome: 'gone', error: `the channel ${name} is no longer in use` };
  }
  try {
    const settings = vault.open(install.sealed, installPlace(tenantId, name)).toString('utf8');
    const body = vault.open(sealed, payloadPlace(tenantId, id)).toString('utf8');
    return await channel.send({ id, atMs: clock.now(), body }, settings);
  } catch {
    return { outcome: 'failed', error: 'the payload or the channel’s settings cannot be read' };
  }
}

/** Stores the result, but only if this worker still holds the lease. */
async function settle(
  { db, clock }: Services,
  { id, attempts, replays }: Delivery,
  result: SendResult,
): Promise<AttemptOutcome> {
  const nowMs = clock.now();
  const [outcome, data] = settled(result, attempts, nowMs);
  await db.delivery.updateMany({
    where: { id, attempts, replays, status: 'pending' },
    data: { ...data, leasedUntil: null, lastStatus: result.status ?? null },
  });
  return outcome;
}

type Settled = readonly [AttemptOutcome, Prisma.DeliveryUpdateManyMutationInput];

function settled(result: SendResult, attempts: number, nowMs: number): Settled {
  const now = new Date(nowMs);
  if (result.outcome === 'delivered') {
    return ['delivered', { status: 'delivered', deliveredAt: now, lastError: null }];
  }
  const lastError = result.error.slice(0, errorLengthMax);
  const nextMs =
    result.outcome === 'gone'
      ? undefined
      : nextAttemptMs({
          attempts,
          nowMs,
          random: Math.random(),
          retryAfterMs: result.retryAfterMs,
        });
  return nextMs === undefined
    ? ['dead_lettered', { status: 'dead', deadAt: now, lastError }]
    : ['rescheduled', { nextAttemptAt: new Date(nextMs), lastError }];
}

/** Disables a receiver that answered 410, so that nothing more is queued for it. */
async function disableChannel(services: Services, { tenantId, channel }: Delivery): Promise<void> {
  await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.install.updateMany({
      where: { tenantId, channel, status: 'active' },
      data: { status: 'disabled' },
    });
    if (count === 0) return;
    await notes.event({
      type: 'integration.disabled',
      chainId: `integration:${channel}`,
      data: { channel, reason: 'the receiver answered 410' },
    });
  });
}

/**
 * Duration of a worker's lease, which is longer than any attempt. Afterwards, other workers take
 * over the deliveries of a crashed worker.
 */
export const leaseMs = 60_000;

/**
 * Maximum number of concurrent deliveries of one tenant, so that a stalled receiver does not delay
 * other tenants.
 */
const perTenantMax = 4;

interface Wanted {
  readonly max: number;
  /** Undefined: deliveries of all tenants. */
  readonly tenantId?: string | undefined;
}

/**
 * Claims due deliveries, each for one worker of all replicas. The claim counts as an attempt, so a
 * delivery that crashes its worker is not retried forever.
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
