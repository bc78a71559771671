/** A change to one section, as followers see it. */
export interface Change {
  /** Position in the tenant's stream; opaque, ascending. */
  readonly id: string;
  readonly name: string;
  /** The section as it stands when the change is read: what this change stored, or something later. */
  readonly value: string;
}

export interface Follower {
  /**
   * Called for changes, in order; changes of one section that come close together may arrive
   * as one. Never called again after `close`.
   */
  onChange(change: Change): void;
  /**
   * Called when changes may have been missed (the stream was trimmed, flushed, or rewritten):
   * the follower must load again. Changes after that moment keep coming.
   */
  onGap(): void;
  /** Sections to hear about. Default: all. What is not wanted is never fetched. */
  readonly wants?: ((name: string) => boolean) | undefined;
}

export interface StoreOptions {
  /** After this long without being stored again the section is gone. Default: kept. */
  readonly ttlMs?: number | undefined;
}

export interface Subscription {
  close(): Promise<void>;
}

type ClaimResult = {
  readonly status: 'claimed' | 'taken';
  /** Since when, in ms since the epoch, the bus has kept every claim. What was issued before may have been used. */
  readonly epochMs: number;
};

/**
 * The sync bus: sections of signed state with a stream of their changes, single-use claims,
 * counters and notifications. Two adapters exist, `memory` and `redis`; one suite holds both
 * to this contract. A call that cannot reach the bus rejects with `bus.unavailable` within
 * seconds; none waits without end.
 */
export interface Bus {
  readonly kind: 'memory' | 'redis';

  /** All sections of a tenant, or those named, with the stream position they are current at. */
  load(
    tenantId: string,
    names?: readonly string[],
  ): Promise<{ readonly sections: ReadonlyMap<string, string>; readonly at: string }>;
  read(tenantId: string, name: string): Promise<string | undefined>;
  /** Stores a section and appends it to the stream, both or neither. */
  publish(tenantId: string, name: string, value: string, options?: StoreOptions): Promise<void>;
  /**
   * The same if the section still is `expected` (undefined: absent), else nothing and false:
   * so that of two writers the slower cannot put back what the faster has overtaken.
   */
  replace(
    tenantId: string,
    name: string,
    change: { readonly expected: string | undefined; readonly value: string } & StoreOptions,
  ): Promise<boolean>;
  /** Follows a tenant's stream strictly after `from`, surviving reconnects, until closed. */
  follow(tenantId: string, from: string, follower: Follower): Subscription;

  /** Takes `key` for `ttlMs` if nobody has: exactly one caller ever sees `claimed`. */
  claim(tenantId: string, key: string, ttlMs: number): Promise<ClaimResult>;
  /** Whether somebody has taken `key`; takes nothing. */
  isTaken(tenantId: string, key: string): Promise<boolean>;
  /** Adds `by` (default 1) to a counter that starts again `windowMs` after its first use; returns count and time left. */
  count(
    tenantId: string,
    key: string,
    windowMs: number,
    by?: number,
  ): Promise<{ readonly count: number; readonly resetMs: number }>;

  /** Wakes subscribers of a topic; at most once, nothing is stored. */
  notify(topic: string, message: string): Promise<void>;
  subscribe(topic: string, onMessage: (message: string) => void): Subscription;

  /** Resolves when the bus answers; rejects otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
