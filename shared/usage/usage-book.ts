import type { Sums } from '../vocabulary/verdict.ts';
import { Buckets, keptMs, minuteOf } from './buckets.ts';

/** Takes back a call that was counted; once. */
export type Release = () => void;

interface Kept {
  readonly buckets: Buckets;
  /** When it last counted something, on the monotonic clock. */
  countedAtMs: number;
}

/**
 * What one run of one decider permitted, by agent and tool. Counted and read in the same tick as
 * the decision, so that calls at once never pass a budget together.
 */
export class UsageBook {
  readonly #kept = new Map<string, Kept>();
  #sweptAtMs = 0;

  /** What was counted so far; live. */
  of(key: string): Buckets | undefined {
    return this.#kept.get(key)?.buckets;
  }

  count(
    key: string,
    sums: Sums,
    { nowMs, monotonicMs }: { readonly nowMs: number; readonly monotonicMs: number },
  ): Release {
    this.#sweep(nowMs, monotonicMs);
    const kept = this.#kept.get(key) ?? { buckets: new Buckets(), countedAtMs: monotonicMs };
    this.#kept.set(key, kept);
    kept.countedAtMs = monotonicMs;
    const minute = minuteOf(nowMs);
    kept.buckets.add(minute, sums);
    let isCounted = true;
    return () => {
      if (isCounted) kept.buckets.remove(minute, sums);
      isCounted = false;
    };
  }

  /** Only once a day has really passed here: a clock that is set ahead, and back, must not renew a budget. */
  #sweep(nowMs: number, monotonicMs: number): void {
    if (monotonicMs - this.#sweptAtMs < keptMs) return;
    this.#sweptAtMs = monotonicMs;
    for (const [key, { buckets, countedAtMs }] of this.#kept) {
      buckets.forgetBefore(minuteOf(nowMs - keptMs));
      if (monotonicMs - countedAtMs >= keptMs) this.#kept.delete(key);
    }
  }
}
