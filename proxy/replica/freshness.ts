import type { Clock } from '../../shared/base/clock.ts';
import { type Heartbeat, tenantSections } from '../../shared/sync/sections.ts';

/** The version and digest of a held section, with which a heartbeat is compared. */
export interface HeldVersion {
  readonly version: number;
  readonly digest: string;
}

export interface Age {
  readonly fresh: boolean;
  /** Time since the held state was last known to be current; since the start if it never was. */
  readonly ageMs: number;
  /** Why the state is not fresh; undefined if it is fresh. */
  readonly reason?: string | undefined;
}

interface Proof {
  readonly heartbeat: Heartbeat;
  /** When the heartbeat was signed, on this process' monotonic clock. */
  readonly signedAtMs: number;
}

/**
 * Measures the age of the held state on the monotonic clock. A heartbeat that names exactly the
 * held sections proves that these sections were current when the heartbeat was signed, so delaying
 * or repeating heartbeats does not make a replica look younger.
 */
export class FreshnessGauge {
  readonly #clock: Clock;
  readonly #maxStalenessMs: number;
  readonly #startedAtMs: number;
  #sequence = 0;
  #latest: Proof | undefined;
  #provenAtMs: number | undefined;
  #mismatch: string | undefined = 'no heartbeat was seen';
  /** A time of the publisher's clock, and the same moment on the monotonic clock. */
  #told: { readonly timeMs: number; readonly atMs: number } | undefined;
  /** The smallest difference seen between this monotonic clock and the publisher's wall clock. */
  #offsetMs = Number.POSITIVE_INFINITY;

  constructor({
    clock,
    maxStalenessMs,
  }: {
    readonly clock: Clock;
    readonly maxStalenessMs: number;
  }) {
    this.#clock = clock;
    this.#maxStalenessMs = maxStalenessMs;
    this.#startedAtMs = clock.monotonic();
  }

  get sequence(): number {
    return this.#sequence;
  }

  /**
   * Accepts a verified heartbeat. Returns false if a heartbeat with the same or a later sequence
   * was accepted before.
   */
  accept(heartbeat: Heartbeat): boolean {
    if (heartbeat.sequence <= this.#sequence) return false;
    this.#sequence = heartbeat.sequence;
    const arrivedAtMs = this.#clock.monotonic();
    this.#told = { timeMs: this.#timeAt(heartbeat, arrivedAtMs), atMs: arrivedAtMs };
    this.#latest = { heartbeat, signedAtMs: arrivedAtMs - this.#lagOf(heartbeat, arrivedAtMs) };
    return true;
  }

  /**
   * The current time of the publisher's clock. This clock also set the expiry of passports, grants
   * and kill switches, so a step of this machine's clock does not change when they expire. Until
   * the first heartbeat, this machine's clock is used.
   */
  now(): number {
    if (this.#told === undefined) return this.#clock.now();
    return Math.floor(this.#told.timeMs + this.#clock.monotonic() - this.#told.atMs);
  }

  /**
   * Discards all heartbeats, for example when their signing key changes; the publisher's time is
   * kept.
   */
  restart(): void {
    this.#sequence = 0;
    this.#latest = undefined;
    this.#provenAtMs = undefined;
    this.#mismatch = 'no heartbeat was seen';
  }

  /**
   * Compares the latest heartbeat with the held sections; must be called when either has changed.
   */
  compare(held: ReadonlyMap<string, HeldVersion>): void {
    if (this.#latest === undefined) return;
    this.#mismatch = firstMismatch(this.#latest.heartbeat, held);
    if (this.#mismatch === undefined) this.#provenAtMs = this.#latest.signedAtMs;
  }

  age(): Age {
    const ageMs = Math.max(0, this.#clock.monotonic() - (this.#provenAtMs ?? this.#startedAtMs));
    const limitMs = this.#maxStalenessMs;
    if (this.#provenAtMs !== undefined && ageMs <= limitMs) return { fresh: true, ageMs };
    const since = this.#mismatch ?? `no heartbeat for ${Math.round(ageMs)} ms`;
    return { fresh: false, ageMs, reason: since };
  }

  /** The signed time plus the smaller of two estimates of the transit time. */
  #timeAt({ time }: Heartbeat, arrivedAtMs: number): number {
    const byWallMs = Math.max(0, this.#clock.now() - time);
    const byMonotonicMs = Math.max(0, arrivedAtMs - (time + this.#offsetMs));
    return time + (Number.isFinite(this.#offsetMs) ? Math.min(byWallMs, byMonotonicMs) : byWallMs);
  }

  /**
   * The transit time of the heartbeat, estimated with the wall clock and, after the first plausible
   * heartbeat, with the monotonic clock. The smaller estimate counts, so that a step of either wall
   * clock has no effect; a real delay appears in both.
   */
  #lagOf({ time }: Heartbeat, arrivedAtMs: number): number {
    const behindMs = this.#clock.now() - time;
    const byWallMs = Math.abs(behindMs);
    const byMonotonicMs = Math.max(0, arrivedAtMs - (time + this.#offsetMs));
    if (Number.isFinite(this.#offsetMs)) {
      this.#offsetMs = Math.min(this.#offsetMs, arrivedAtMs - time);
      return Math.min(byWallMs, byMonotonicMs);
    }
    if (byWallMs <= this.#maxStalenessMs) {
      this.#offsetMs = arrivedAtMs - Math.max(0, behindMs) - time;
    }
    return byWallMs;
  }
}

/**
 * Describes the first difference between a heartbeat and the held sections; undefined if there is
 * none.
 */
function firstMismatch(
  { sections }: Heartbeat,
  held: ReadonlyMap<string, HeldVersion>,
): string | undefined {
  for (const name of Object.keys(sections)) {
    if (!(tenantSections as readonly string[]).includes(name)) return `unknown section ${name}`;
  }
  for (const name of tenantSections) {
    const current = Object.hasOwn(sections, name) ? sections[name] : undefined;
    const mine = held.get(name);
    if (current === undefined) return `the heartbeat does not name section ${name}`;
    if (mine === undefined) return `section ${name} is missing`;
    if (mine.version !== current.version || mine.digest !== current.digest) {
      return `section ${name} is held in version ${mine.version}, current is ${current.version}`;
    }
  }
  return undefined;
}
