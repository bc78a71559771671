import type { Bus } from '../../../shared/bus/bus.ts';

// Unfinished waits, by bus and topic. Callers that wait for the same topic share one subscription
// and one timer.
const waits = new WeakMap<Bus, Map<string, Promise<void>>>();

/**
 * Resolves when the topic is notified, or after `atMostMs`, because the process that should notify
 * may have crashed.
 */
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
  // Closing is not awaited, because no caller depends on it.
  void subscription.close().catch(() => undefined);
}
