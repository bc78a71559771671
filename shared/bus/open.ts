import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { SettingsError } from '../base/settings.ts';
import type { Bus } from './bus.ts';
import { type ClaimStore, openMemoryBus } from './memory.ts';
import { openRedisBus } from './redis.ts';

interface OpenBusOptions {
  /** Undefined: an in-process bus. */
  readonly redisUrl: string | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /**
   * Maximum entries in a tenant's change stream. A follower that is further behind must load again.
   */
  readonly changesKept?: number | undefined;
  /** For the in-process bus: stores claims beyond the lifetime of the process. */
  readonly claims?: ClaimStore | undefined;
}

/** Opens the bus that the settings select. Throws a `SettingsError` if the Redis URL is invalid. */
export async function openBus({ redisUrl, claims, ...options }: OpenBusOptions): Promise<Bus> {
  if (redisUrl === undefined) return openMemoryBus({ ...options, claims });
  // ioredis would try to resolve such text as a host name forever, and log the text, which can
  // contain a password.
  if (!/^rediss?:\/\//.test(redisUrl) || !URL.canParse(redisUrl)) {
    throw new SettingsError(
      'REDIS_URL must begin with redis:// or rediss://, as in redis://user:password@host:6379/0.',
    );
  }
  return openRedisBus({ ...options, url: redisUrl });
}
