/** A change to one section of the synchronised state, as followers see it. */
export interface Change {
  /** Position in the tenant's stream; opaque, ascending. */
  readonly id: string;
  readonly name: string;
  /**
   * The section's value at the time of reading: the value that this change stored, or a later one.
   */
  readonly value: string;
}

export interface Follower {
  /**
   * Called for changes in stream order. Several changes of one section may be delivered as one.
   * Never called after `close`.
   */
  onChange(change: Change): void;
  /**
   * Called if changes may have been missed (the stream was trimmed, flushed or rewritten): the
   * follower must load again. Later changes are still delivered.
   */
  onGap(): void;
  /** Selects the sections to follow. Default: all. Other sections are never fetched. */
  readonly wants?: ((name: string) => boolean) | undefined;
}

export interface StoreOptions {
  /** The section is removed if it is not stored again within this time. Default: it is kept. */
  readonly ttlMs?: number | undefined;
}

export interface Subscription {
  close(): Promise<void>;
}

type ClaimResult = {
  readonly status: 'claimed' | 'taken';
  /**
   * The bus has kept every claim since this time (milliseconds since the Unix epoch). A passport
   * that was issued earlier may already have been used.
   */
  readonly epochMs: number;
};

/**
 * The sync bus: sections of signed state with a stream of their changes, single-use claims,
 * counters and notifications. One test suite verifies both adapters, `memory` and `redis`, against
 * this contract. A call that cannot reach the bus rejects with `bus.unavailable` within seconds.
 */
export interface Bus {
  readonly kind: 'memory' | 'redis';

  /**
   * Loads all sections of a tenant, or only those in `names`. `at` is the stream position of the
   * loaded state.
   */
  load(
    tenantId: string,
    names?: readonly string[],
  ): Promise<{ readonly sections: ReadonlyMap<string, string>; readonly at: string }>;
  read(tenantId: string, name: string): Promise<string | undefined>;
  /** Stores a section and appends it to the stream, atomically. */
  publish(tenantId: string, name: string, value: string, options?: StoreOptions): Promise<void>;
  /**
   * Like `publish`, if the section still equals `expected` (undefined: absent); otherwise stores
   * nothing and resolves to false. Prevents a slow writer from overwriting a newer version.
   */
  replace(
    tenantId: string,
    name: string,
    change: { readonly expected: string | undefined; readonly value: string } & StoreOptions,
  ): Promise<boolean>;
  /**
   * Delivers the changes after position `from` (exclusive) of a tenant's stream until the
   * subscription is closed, also after reconnects.
   */
  follow(tenantId: string, from: string, follower: Follower): Subscription;

  /** Claims `key` for `ttlMs`: exactly one caller gets `claimed`. */
  claim(tenantId: string, key: string, ttlMs: number): Promise<ClaimResult>;
  /** True if `key` is claimed. Does not claim it. */
  isTaken(tenantId: string, key: string): Promise<boolean>;
  /**
   * Adds `by` (default 1) to a counter that is reset `windowMs` after its first use; returns the
   * count and the time until the reset.
   */
  count(
    tenantId: string,
    key: string,
    windowMs: number,
    by?: number,
  ): Promise<{ readonly count: number; readonly resetMs: number }>;

  /** Notifies subscribers of a topic. Messages are delivered at most once and not stored. */
  notify(topic: string, message: string): Promise<void>;
  subscribe(topic: string, onMessage: (message: string) => void): Subscription;

  /** Resolves if the bus replies; rejects otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
