import type { Services } from '../services.ts';
import { attemptDelivery } from './attempt-delivery.ts';
import type { Channel } from './channel.ts';
import { claimDeliveries } from './claim-deliveries.ts';

const underWayMax = 20;

interface DeliveryWorker {
  /** Takes no more, and resolves when what is under way has ended. */
  close(): Promise<void>;
}

/**
 * Delivers what is due, all the time. Any number of replicas may do so on one database; none
 * waits for another, nor for a receiver that stalls. A failed round is logged, the next tries again.
 */
export function startDeliveryWorker(
  services: Services,
  channels: readonly Channel[],
  intervalMs = 1_000,
): DeliveryWorker {
  const underWay = new Set<Promise<unknown>>();
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let round: Promise<void> = Promise.resolve();

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
  const schedule = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      round = begin()
        .catch((err: unknown) => services.log.warn({ err }, 'due deliveries could not be read'))
        .finally(schedule);
    }, intervalMs);
    timer.unref();
  };
  schedule();
  return {
    async close() {
      stopped = true;
      clearTimeout(timer);
      await round;
      await Promise.all(underWay);
    },
  };
}
