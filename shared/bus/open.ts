import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { SettingsError } from '../base/settings.ts';
import type { Bus } from './bus.ts';
import { type ClaimStore, openMemoryBus } from './memory.ts';
import { openRedisBus } from './redis.ts';

interface OpenBusOptions {
  /** Undefined: a bus of this process alone. */
  readonly redisUrl: string | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /** How many changes a tenant's stream keeps. Who falls further behind loads anew. */
  readonly changesKept?: number | undefined;
  /** For the bus of this process alone: where its claims outlive it. */
  readonly claims?: ClaimStore | undefined;
}

/** Opens the bus that the settings ask for; throws a `SettingsError` for what is no Redis URL. */
export async function openBus({ redisUrl, claims, ...options }: OpenBusOptions): Promise<Bus> {
  if (redisUrl === undefined) return openMemoryBus({ ...options, claims });
  // Read as a host's name it would be looked up, and logged, for ever; it holds a password.
  if (!/^rediss?:\/\//.test(redisUrl) || !URL.canParse(redisUrl)) {
    throw new SettingsError(
      'REDIS_URL must begin with redis:// or rediss://, as in redis://user:password@host:6379/0.',
    );
  }
  return openRedisBus({ ...options, url: redisUrl });
}
