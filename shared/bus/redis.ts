import { randomInt } from 'node:crypto';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Bus, Follower, StoreOptions, Subscription } from './bus.ts';
import { catchFollowerErrors } from './catch-follower-errors.ts';
import { EvictionWatch } from './eviction-watch.ts';
import {
  answer,
  connectRedis,
  runScript,
  unavailable,
  waitUntilReady,
} from './redis-connection.ts';
import { blockMs, followStream } from './redis-follow.ts';
import { claimScript, countScript, loadScript, type Script, storeScript } from './redis-scripts.ts';
import { redisTopics, type Topics } from './redis-topics.ts';
import { tenantKeys } from './tenant-keys.ts';

interface RedisBusOptions {
  readonly url: string;
  readonly log: Log;
  readonly clock: Clock;
  /**
   * Maximum entries in a tenant's change stream. A follower that is further behind must load again.
   */
  readonly changesKept?: number | undefined;
}

const changesKeptByDefault = 10_000;
const firstConnectionMs = 2_000;

const loadReply = z.tuple([z.string()], z.string());
const claimReply = z.tuple([z.union([z.literal(0), z.literal(1)]), z.coerce.number().int().min(1)]);
const countReply = z.tuple([z.number().int().min(1), z.number().int().min(0)]);

/**
 * Opens the bus on Redis. Resolves even if Redis is unreachable; until Redis is reachable, calls
 * reject and followers wait.
 */
export async function openRedisBus(options: RedisBusOptions): Promise<Bus> {
  const redis = connectRedis(options.url, { name: 'commands', log: options.log });
  const eviction = new EvictionWatch(redis, options.log);
  await waitUntilReady(redis, firstConnectionMs);
  return new RedisBus(redis, { ...options, eviction });
}

class RedisBus implements Bus {
  readonly kind = 'redis';
  readonly #redis: Redis;
  readonly #options: RedisBusOptions & { readonly eviction: EvictionWatch };
  readonly #topics: Topics;
  readonly #followers = new Set<Subscription>();
  #closed = false;

  constructor(redis: Redis, options: RedisBusOptions & { readonly eviction: EvictionWatch }) {
    this.#redis = redis;
    this.#options = options;
    this.#topics = redisTopics(options);
  }

  async load(tenantId: string, names?: readonly string[]) {
    const keys = tenantKeys(tenantId);
    if (names?.length === 0) throw new TypeError('load: name a section, or none to load all');
    const args = [keys.sections, ...(names ?? [])];
    const reply = await this.#run(loadScript, [keys.stream, keys.index], args);
    const [at, ...flat] = answer(loadReply, reply);
    const sections = new Map<string, string>();
    for (let index = 0; index + 1 < flat.length; index += 2) {
      sections.set(flat[index] ?? '', flat[index + 1] ?? '');
    }
    return { sections, at };
  }

  async read(tenantId: string, name: string): Promise<string | undefined> {
    return (
      (await this.#try(() => this.#redis.get(tenantKeys(tenantId).section(name)))) ?? undefined
    );
  }

  async publish(
    tenantId: string,
    name: string,
    value: string,
    { ttlMs }: StoreOptions = {},
  ): Promise<void> {
    await this.#store(tenantId, name, { value, ttlMs });
  }

  replace(
    tenantId: string,
    name: string,
    change: { readonly expected: string | undefined; readonly value: string } & StoreOptions,
  ): Promise<boolean> {
    return this.#store(tenantId, name, { ...change, expected: change.expected ?? '' });
  }

  follow(tenantId: string, from: string, follower: Follower): Subscription {
    const { url, log } = this.#options;
    const closing = new AbortController();
    const redis = connectRedis(url, { name: 'follow', log, commandTimeoutMs: blockMs + 1_000 });
    const keys = tenantKeys(tenantId);
    const following = {
      redis,
      keys,
      from,
      follower: catchFollowerErrors(follower, log),
      log,
      closed: closing.signal,
    };
    const ended = waitUntilReady(redis, firstConnectionMs).then(() => followStream(following));
    const subscription: Subscription = {
      close: async () => {
        closing.abort();
        redis.disconnect();
        this.#followers.delete(subscription);
        await ended;
      },
    };
    this.#followers.add(subscription);
    return subscription;
  }

  async claim(tenantId: string, key: string, ttlMs: number) {
    const { eviction, clock } = this.#options;
    await this.#try(() => eviction.assertNone());
    const keys = tenantKeys(tenantId);
    const args = [Math.max(1, Math.ceil(ttlMs)), clock.now()];
    const reply = await this.#run(claimScript, [keys.claim(key), keys.epoch], args);
    const [taken, epochMs] = answer(claimReply, reply);
    return { status: taken === 1 ? ('claimed' as const) : ('taken' as const), epochMs };
  }

  async isTaken(tenantId: string, key: string): Promise<boolean> {
    return (await this.#try(() => this.#redis.exists(tenantKeys(tenantId).claim(key)))) === 1;
  }

  async count(tenantId: string, key: string, windowMs: number, by = 1) {
    const keys = [tenantKeys(tenantId).counter(key)];
    const reply = await this.#run(countScript, keys, [Math.max(1, Math.ceil(windowMs)), by]);
    const [count, resetMs] = answer(countReply, reply);
    return { count, resetMs };
  }

  async notify(topic: string, message: string): Promise<void> {
    await this.#try(() => this.#topics.notify(this.#redis, topic, message));
  }

  subscribe(topic: string, onMessage: (message: string) => void): Subscription {
    return this.#topics.subscribe(topic, onMessage);
  }

  async ping(): Promise<void> {
    await this.#try(() => this.#redis.ping());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#options.eviction.close();
    await Promise.all([...this.#followers].map((follower) => follower.close()));
    this.#topics.close();
    this.#redis.disconnect();
  }

  async #store(
    tenantId: string,
    name: string,
    change: { readonly value: string; readonly expected?: string } & StoreOptions,
  ): Promise<boolean> {
    if (change.value === '')
      throw new TypeError(
        'section value must not be empty: empty text means that the section is absent',
      );
    const keys = tenantKeys(tenantId);
    const args = [
      name,
      change.value,
      Math.ceil(change.ttlMs ?? 0),
      this.#options.changesKept ?? changesKeptByDefault,
      randomInt(1, 2 ** 48 - 1),
      this.#options.clock.now(),
      change.expected === undefined ? 'any' : 'if',
      change.expected ?? '',
    ];
    const target = [keys.section(name), keys.stream, keys.index, keys.epoch];
    return answer(z.number(), await this.#run(storeScript, target, args)) === 1;
  }

  #run(script: Script, keys: readonly string[], args: readonly (string | number)[]) {
    return this.#try(() => runScript(this.#redis, script, keys, args));
  }

  async #try<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.#closed) throw unavailable(new Error('the bus was closed'));
    try {
      return await call();
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(error);
    }
  }
}
