import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Bus, Follower, StoreOptions, Subscription } from './bus.ts';
import { catchFollowerErrors } from './catch-follower-errors.ts';

interface MemoryBusOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Maximum entries in a tenant's change stream. */
  readonly changesKept?: number | undefined;
  /** Without a store, claims are lost when the process ends. */
  readonly claims?: ClaimStore | undefined;
}

/** Stores claims beyond the lifetime of the process. */
export interface ClaimStore {
  /** The store has kept every claim since this time (milliseconds since the Unix epoch). */
  readonly epochMs: number;
  /** True if claims on this key must be stored. */
  keeps(key: string): boolean;
  /** Resolves to true for exactly one caller. */
  take(tenantId: string, key: string, untilMs: number): Promise<boolean>;
  isTaken(tenantId: string, key: string): Promise<boolean>;
}

const sweepEveryMs = 60_000;

/**
 * Opens the bus of the single-process mode. The bus's state ends with the process, except claims in
 * a `ClaimStore`.
 */
export function openMemoryBus(options: MemoryBusOptions): Bus {
  return new MemoryBus(options);
}

interface StoredSection {
  readonly value: string;
  readonly expiresAtMs: number;
}

interface Following {
  readonly follower: Follower;
  position: number;
  scheduled: boolean;
  closed: boolean;
}

class Tenant {
  readonly sections = new Map<string, StoredSection>();
  readonly claims = new Map<string, number>();
  readonly counters = new Map<string, { count: number; readonly endsAtMs: number }>();
  readonly followers = new Set<Following>();
  /**
   * Names of the changed sections, oldest first; the oldest `trimmed` changes have been removed.
   */
  readonly changes: string[] = [];
  trimmed = 0;

  get last(): number {
    return this.trimmed + this.changes.length;
  }
}

class MemoryBus implements Bus {
  readonly kind = 'memory';
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #changesKept: number;
  readonly #epochMs: number;
  readonly #claims: ClaimStore | undefined;
  readonly #tenants = new Map<string, Tenant>();
  readonly #listeners = new Map<string, Set<(message: string) => void>>();
  #sweptAtMs: number;
  #closed = false;

  constructor({ clock, log, changesKept = 10_000, claims }: MemoryBusOptions) {
    this.#claims = claims;
    this.#clock = clock;
    this.#log = log;
    this.#changesKept = changesKept;
    this.#epochMs = clock.now();
    this.#sweptAtMs = clock.monotonic();
  }

  async load(tenantId: string, names?: readonly string[]) {
    const tenant = this.#tenant(tenantId);
    if (names?.length === 0) throw new TypeError('load: name a section, or none to load all');
    const sections = new Map<string, string>();
    for (const name of names ?? tenant.sections.keys()) {
      const value = this.#valueOf(tenant, name);
      if (value !== undefined) sections.set(name, value);
    }
    return { sections, at: String(tenant.last) };
  }

  async read(tenantId: string, name: string): Promise<string | undefined> {
    return this.#valueOf(this.#tenant(tenantId), name);
  }

  async publish(
    tenantId: string,
    name: string,
    value: string,
    options: StoreOptions = {},
  ): Promise<void> {
    this.#store(tenantId, name, { value, ...options });
  }

  async replace(
    tenantId: string,
    name: string,
    change: { readonly expected: string | undefined; readonly value: string } & StoreOptions,
  ): Promise<boolean> {
    if (this.#valueOf(this.#tenant(tenantId), name) !== change.expected) return false;
    this.#store(tenantId, name, change);
    return true;
  }

  follow(tenantId: string, from: string, follower: Follower): Subscription {
    const tenant = this.#tenant(tenantId);
    const following = {
      follower: catchFollowerErrors(follower, this.#log),
      position: Number(from),
      scheduled: false,
      closed: false,
    };
    tenant.followers.add(following);
    this.#wake(tenant, following);
    return {
      close: async () => {
        following.closed = true;
        tenant.followers.delete(following);
      },
    };
  }

  async claim(tenantId: string, key: string, ttlMs: number) {
    const { claims } = this.#tenant(tenantId);
    const nowMs = this.#clock.monotonic();
    this.#sweep(nowMs);
    const taken = (claims.get(key) ?? 0) > nowMs;
    if (!taken) claims.set(key, nowMs + Math.max(1, ttlMs));
    const store = this.#storeOf(key);
    if (taken || store === undefined) {
      const epochMs = store?.epochMs ?? this.#epochMs;
      return { status: taken ? ('taken' as const) : ('claimed' as const), epochMs };
    }
    try {
      const isFirst = await store.take(tenantId, key, this.#clock.now() + Math.max(1, ttlMs));
      const status = isFirst ? ('claimed' as const) : ('taken' as const);
      return { status, epochMs: store.epochMs };
    } catch (cause) {
      claims.delete(key);
      throw new GatewayError('bus.unavailable', { cause });
    }
  }

  async isTaken(tenantId: string, key: string): Promise<boolean> {
    const untilMs = this.#tenant(tenantId).claims.get(key) ?? 0;
    if (untilMs > this.#clock.monotonic()) return true;
    return (await this.#storeOf(key)?.isTaken(tenantId, key)) ?? false;
  }

  #storeOf(key: string): ClaimStore | undefined {
    return this.#claims?.keeps(key) === true ? this.#claims : undefined;
  }

  async count(tenantId: string, key: string, windowMs: number, by = 1) {
    const { counters } = this.#tenant(tenantId);
    const nowMs = this.#clock.monotonic();
    this.#sweep(nowMs);
    let counter = counters.get(key);
    if (counter === undefined || counter.endsAtMs <= nowMs) {
      counter = { count: 0, endsAtMs: nowMs + Math.max(1, windowMs) };
      counters.set(key, counter);
    }
    counter.count += by;
    return { count: counter.count, resetMs: Math.round(counter.endsAtMs - nowMs) };
  }

  async notify(topic: string, message: string): Promise<void> {
    this.#refuseClosed();
    for (const listener of this.#listeners.get(topic) ?? []) {
      queueMicrotask(() => {
        if (this.#listeners.get(topic)?.has(listener)) listener(message);
      });
    }
  }

  subscribe(topic: string, onMessage: (message: string) => void): Subscription {
    const listener = (message: string) => onMessage(message);
    const known = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, known.add(listener));
    return {
      close: async () => {
        known.delete(listener);
        if (known.size === 0 && this.#listeners.get(topic) === known) this.#listeners.delete(topic);
      },
    };
  }

  async ping(): Promise<void> {
    this.#refuseClosed();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const tenant of this.#tenants.values()) {
      for (const following of tenant.followers) following.closed = true;
    }
    this.#listeners.clear();
  }

  #store(tenantId: string, name: string, { value, ttlMs }: { value: string } & StoreOptions): void {
    if (value === '')
      throw new TypeError(
        'section value must not be empty: empty text means that the section is absent',
      );
    const tenant = this.#tenant(tenantId);
    const expiresAtMs =
      ttlMs === undefined ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + ttlMs;
    tenant.sections.set(name, { value, expiresAtMs });
    tenant.changes.push(name);
    if (tenant.changes.length > this.#changesKept) {
      tenant.changes.shift();
      tenant.trimmed += 1;
    }
    for (const following of tenant.followers) this.#wake(tenant, following);
  }

  /**
   * Delivers changes after the publisher's call has returned, because a follower must not run
   * inside that call.
   */
  #wake(tenant: Tenant, following: Following): void {
    if (following.scheduled) return;
    following.scheduled = true;
    setImmediate(() => {
      following.scheduled = false;
      if (!following.closed) this.#deliver(tenant, following);
    });
  }

  #deliver(tenant: Tenant, following: Following): void {
    const { follower, position } = following;
    const missed = position < tenant.trimmed || position > tenant.last;
    const names = missed ? [] : tenant.changes.slice(position - tenant.trimmed);
    following.position = tenant.last;
    if (missed) follower.onGap();
    for (const [index, name] of names.entries()) {
      const value = this.#valueOf(tenant, name);
      const later = names.indexOf(name, index + 1) !== -1;
      if (following.closed || later || value === undefined) continue;
      if (follower.wants?.(name) ?? true) {
        follower.onChange({ id: String(position + index + 1), name, value });
      }
    }
  }

  #valueOf(tenant: Tenant, name: string): string | undefined {
    const section = tenant.sections.get(name);
    return section !== undefined && section.expiresAtMs > this.#clock.monotonic()
      ? section.value
      : undefined;
  }

  #tenant(tenantId: string): Tenant {
    this.#refuseClosed();
    const tenant = this.#tenants.get(tenantId) ?? new Tenant();
    this.#tenants.set(tenantId, tenant);
    return tenant;
  }

  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptAtMs < sweepEveryMs) return;
    this.#sweptAtMs = nowMs;
    for (const { sections, claims, counters } of this.#tenants.values()) {
      for (const [key, endsAtMs] of claims) if (endsAtMs <= nowMs) claims.delete(key);
      for (const [key, { endsAtMs }] of counters) if (endsAtMs <= nowMs) counters.delete(key);
      for (const [name, { expiresAtMs }] of sections)
        if (expiresAtMs <= nowMs) sections.delete(name);
    }
  }

  #refuseClosed(): void {
    if (!this.#closed) return;
    throw new GatewayError('bus.unavailable', { cause: new Error('the bus was closed') });
  }
}
