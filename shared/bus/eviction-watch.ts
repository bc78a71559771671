import type { Redis } from 'ioredis';
import type { Log } from '../base/log.ts';
import { readEviction } from './redis-connection.ts';

/** Interval between reads of the eviction policy, which can change while a connection is open. */
const lookAgainMs = 5_000;

/**
 * Refuses claims while Redis may evict keys, because an evicted claim lets a passport be used
 * twice. Reads the policy on every new connection and periodically after that.
 */
export class EvictionWatch {
  readonly #redis: Redis;
  readonly #log: Log;
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  #reported: string | undefined = 'noeviction';
  #policy: string | undefined;

  constructor(redis: Redis, log: Log) {
    this.#redis = redis;
    this.#log = log;
    redis.on('ready', () => {
      this.#looking = this.#look();
    });
    this.#timer = setInterval(() => {
      if (redis.status === 'ready') void this.#look();
    }, lookAgainMs).unref();
  }

  /**
   * Rejects if this Redis may evict claims. If the policy is unreadable, logs a warning and allows
   * claims.
   */
  async assertNone(): Promise<void> {
    // On a new connection the policy is unknown until the first reply.
    await this.#looking;
    if (this.#policy === undefined || this.#policy === 'noeviction') return;
    throw new Error(
      `Redis evicts (${this.#policy}): it may forget used passports; set maxmemory-policy to noeviction`,
    );
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const found = await readEviction(this.#redis, this.#log);
    // The next check reads the policy again.
    if (found === 'no answer') return;
    // If Redis hides the policy later, the policy that was read last still applies.
    if (found !== 'hidden') this.#policy = found.policy;
    if (this.#policy === this.#reported) return;
    this.#reported = this.#policy;
    if (this.#policy === 'noeviction') return;
    const fields = { maxmemory_policy: this.#policy ?? 'unknown' };
    const advice = 'set maxmemory-policy to noeviction';
    if (this.#policy === undefined) {
      this.#log.warn(fields, `Redis may forget used passports under memory pressure: ${advice}`);
    } else {
      this.#log.error(fields, `Redis may forget used passports: none is accepted; ${advice}`);
    }
  }
}
