import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { type AttemptOutcome, attemptDelivery, claimDeliveries } from './attempt-delivery.ts';
import type { Channel } from './channel.ts';

/** What one call attempts at most; its caller waits for all of it. */
const drainMax = 100;

type DrainReport = Readonly<Record<'attempted' | AttemptOutcome, number>>;

/** Attempts what of a tenant is due now, and says what came of it. */
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

/** Takes a dead-lettered delivery back into the queue, due now, its schedule begun anew. */
export async function replayDelivery(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<void> {
  await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.delivery.updateMany({
      where: { tenantId, id, status: 'dead' },
      data: {
        ...{ status: 'pending', attempts: 0, deadAt: null, leasedUntil: null },
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
 * Delivers what is due, all the time. Any number of replicas may do so on one database; none
 * waits for another, nor for a receiver that stalls. A failed round is logged, the next tries again.
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
        .catch((err: unknown) => services.log.warn({ err }, 'a delivery could not be settled'))
        .finally(() => underWay.delete(attempt));
      underWay.add(attempt);
    }
  };
  const rounds = startRounds(
    () =>
      begin().catch((err: unknown) =>
        services.log.warn({ err }, 'due deliveries could not be read'),
      ),
    intervalMs,
  );
  return {
    async close() {
      await rounds.close();
      await Promise.all(underWay);
    },
  };
}
