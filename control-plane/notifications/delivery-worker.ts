import type { Services } from '../core/services.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { attemptDelivery } from './attempt-delivery.ts';
import type { Channel } from './channel.ts';
import { claimDeliveries } from './claim-deliveries.ts';

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
