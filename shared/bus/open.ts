import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Bus } from './bus.ts';
import { openMemoryBus } from './memory.ts';
import { openRedisBus } from './redis.ts';

interface OpenBusOptions {
  /** Undefined: a bus of this process alone. */
  readonly redisUrl: string | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /** How many changes a tenant's stream keeps. Who falls further behind loads anew. */
  readonly changesKept?: number | undefined;
}

/** Opens the bus that the settings ask for. */
export async function openBus({ redisUrl, ...options }: OpenBusOptions): Promise<Bus> {
  return redisUrl === undefined
    ? openMemoryBus(options)
    : openRedisBus({ ...options, url: redisUrl });
}
