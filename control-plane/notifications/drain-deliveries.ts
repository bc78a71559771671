import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { type AttemptOutcome, attemptDelivery, claimDeliveries } from './attempt-delivery.ts';
import type { Channel } from './channel.ts';

/** Maximum number of attempts in one call, because the caller waits for all of them. */
const drainMax = 100;

type DrainReport = Readonly<Record<'attempted' | AttemptOutcome, number>>;

/** Attempts the tenant's due deliveries, and returns the results. */
export async function drainDeliveries(
  services: Services,
  { tenantId }: Caller,
  channels: readonly Channel[],
): Promise<DrainReport> {
  const report = { attempted: 0, delivered: 0, rescheduled: 0, dead_lettered: 0 };
  while (report.attempted < drainMax) {
    const claimed = await claimDeliveries(services, { max: drainMax, tenantId });
    if (claimed.length === 0) break;
    const outcomes = await Promise.all(
      claimed.map((delivery) => attemptDelivery(services, channels, delivery)),
    );
    report.attempted += outcomes.length;
    for (const outcome of outcomes) report[outcome] += 1;
  }
  return report;
}

/** Returns a dead-lettered delivery to the queue. The delivery is due at once and begins a new schedule. */
export async function replayDelivery(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<void> {
  await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.delivery.updateMany({
      where: { tenantId, id, status: 'dead' },
      data: {
        status: 'pending',
        attempts: 0,
        deadAt: null,
        leasedUntil: null,
        nextAttemptAt: new Date(services.clock.now()),
        replays: { increment: 1 },
      },
    });
    if (count === 0) {
      const known = await tx.delivery.findFirst({ where: { tenantId, id } });
      throw new GatewayError(known === null ? 'delivery.not_found' : 'delivery.not_dead');
    }
    await notes.event({
      type: 'delivery.replayed',
      chainId: 'integration:deliveries',
      data: { by: principal, delivery_id: id },
    });
  });
}

const underWayMax = 20;

/**
 * Delivers due messages continuously. Several replicas can run it on one database. A stalled
 * receiver delays no other receiver. A failed round is logged, and the next round retries.
 */
export function startDeliveryWorker(
  services: Services,
  channels: readonly Channel[],
  intervalMs = 1_000,
): Rounds {
  const underWay = new Set<Promise<unknown>>();
  const begin = async () => {
    const max = underWayMax - underWay.size;
    if (max === 0) return;
    for (const delivery of await claimDeliveries(services, { max })) {
      const attempt: Promise<unknown> = attemptDelivery(services, channels, delivery)
        .catch((err: unknown) =>
          services.log.warn({ err }, 'could not store the result of a delivery'),
        )
        .finally(() => underWay.delete(attempt));
      underWay.add(attempt);
    }
  };
  const rounds = startRounds(
    () =>
      begin().catch((err: unknown) => services.log.warn({ err }, 'could not read due deliveries')),
    intervalMs,
  );
  return {
    async close() {
      await rounds.close();
      await Promise.all(underWay);
    },
  };
}
