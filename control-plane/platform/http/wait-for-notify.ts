import type { Bus } from '../../../shared/bus/bus.ts';

// Those of one process who wait for the same thing wait together: one subscription, one timer.
const waits = new WeakMap<Bus, Map<string, Promise<void>>>();

/** Resolves when the topic is told of, or after `atMostMs`: whoever tells may have died. */
export function waitForNotify(bus: Bus, topic: string, atMostMs: number): Promise<void> {
  const shared = waits.get(bus) ?? new Map<string, Promise<void>>();
  waits.set(bus, shared);
  const known = shared.get(topic);
  if (known !== undefined) return known;
  const wait = waitOnce(bus, topic, atMostMs).finally(() => shared.delete(topic));
  shared.set(topic, wait);
  return wait;
}

async function waitOnce(bus: Bus, topic: string, atMostMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, atMostMs);
  const subscription = bus.subscribe(topic, () => resolve());
  await promise;
  clearTimeout(timer);
  // Not awaited: nobody who waits needs it gone.
  void subscription.close().catch(() => undefined);
}
