import type { Redis } from 'ioredis';
import type { Log } from '../base/log.ts';
import { readEviction } from './redis-connection.ts';

/** How soon a policy that was changed under a running connection is noticed. */
const lookAgainMs = 5_000;

/**
 * An evicted claim is a passport that can be used twice: no claim is made on a Redis that is known
 * to forget under memory pressure. Looked at on every connection and now and then since.
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

  /** Rejects when this Redis may forget claims. What cannot be read is warned about, and allowed. */
  async assertNone(): Promise<void> {
    // Of a new connection nothing is known before the first answer.
    await this.#looking;
    if (this.#policy === undefined || this.#policy === 'noeviction') return;
    throw new Error(`Redis evicts (${this.#policy}): it may forget used passports`);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const found = await readEviction(this.#redis, this.#log);
    // The next look asks again.
    if (found === 'no answer') return;
    // A policy that was read once stays known when Redis hides it later.
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
