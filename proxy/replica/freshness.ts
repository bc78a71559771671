import type { Clock } from '../../shared/base/clock.ts';
import { type Heartbeat, tenantSections } from '../../shared/sync/sections.ts';

/** A section as it is held: what a heartbeat must name for the replica to be current. */
export interface HeldVersion {
  readonly version: number;
  readonly digest: string;
}

export interface Age {
  readonly fresh: boolean;
  /** Since when the held state is known to have been current; since the start when it never was. */
  readonly ageMs: number;
  /** Why it is not fresh; undefined when it is. */
  readonly reason?: string | undefined;
}

interface Proof {
  readonly heartbeat: Heartbeat;
  /** When it was signed, on this process' monotonic clock. */
  readonly signedAtMs: number;
}

/**
 * How old the held state is. Only a heartbeat that names exactly the held sections proves
 * anything, and it proves it for the moment at which it was signed: delaying heartbeats makes a
 * replica no younger, repeating them neither. Age runs on the monotonic clock.
 */
export class FreshnessGauge {
  readonly #clock: Clock;
  readonly #maxStalenessMs: number;
  readonly #startedAtMs: number;
  #sequence = 0;
  #latest: Proof | undefined;
  #provenAtMs: number | undefined;
  #mismatch: string | undefined = 'no heartbeat was seen';
  /** The publisher's time, and when on the monotonic clock it was that. */
  #told: { readonly timeMs: number; readonly atMs: number } | undefined;
  /** The least difference seen between this monotonic clock and the publisher's wall clock. */
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

  /** Takes a verified heartbeat; false when one of that sequence or a later one was seen before. */
  accept(heartbeat: Heartbeat): boolean {
    if (heartbeat.sequence <= this.#sequence) return false;
    this.#sequence = heartbeat.sequence;
    const arrivedAtMs = this.#clock.monotonic();
    this.#told = { timeMs: this.#timeAt(heartbeat, arrivedAtMs), atMs: arrivedAtMs };
    this.#latest = { heartbeat, signedAtMs: arrivedAtMs - this.#lagOf(heartbeat, arrivedAtMs) };
    return true;
  }

  /**
   * The time by the publisher's clock, which also set the times that are judged (expiry of
   * passports, grants, kill switches), so a step of this machine's clock changes none of them. The
   * machine's clock counts only until the first heartbeat.
   */
  now(): number {
    if (this.#told === undefined) return this.#clock.now();
    return Math.floor(this.#told.timeMs + this.#clock.monotonic() - this.#told.atMs);
  }

  /** Starts over, for example when the key of the heartbeats changes; the known time is kept. */
  restart(): void {
    this.#sequence = 0;
    this.#latest = undefined;
    this.#provenAtMs = undefined;
    this.#mismatch = 'no heartbeat was seen';
  }

  /** Holds the latest heartbeat against what is held: call when either has changed. */
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

  /** The signed time, plus the transit time on which both clocks agree. */
  #timeAt({ time }: Heartbeat, arrivedAtMs: number): number {
    const byWallMs = Math.max(0, this.#clock.now() - time);
    const byMonotonicMs = Math.max(0, arrivedAtMs - (time + this.#offsetMs));
    return time + (Number.isFinite(this.#offsetMs) ? Math.min(byWallMs, byMonotonicMs) : byWallMs);
  }

  /**
   * The transit time of the heartbeat. Two clocks measure it: the wall clock, and, once a heartbeat
   * was plausible by it, the monotonic clock compared with the publisher's times. The smaller
   * value counts, so that a step of either wall clock does no harm. Both see a delay.
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

/** The differences between a heartbeat and the held sections: none may be missing or unequal. */
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
