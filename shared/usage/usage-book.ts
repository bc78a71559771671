import type { Sums } from '../vocabulary/verdict.ts';
import { Buckets, keptMs, minuteOf } from './buckets.ts';

/** Removes a counted call from the budgets. Invoking the function again has no effect. */
export type Release = () => void;

interface Kept {
  readonly buckets: Buckets;
  /** Time of the last count, on the monotonic clock. */
  countedAtMs: number;
}

/**
 * The calls that one run of one deciding program permitted, by agent and tool. Counts are read and
 * written in the same tick as the decision, so that simultaneous calls cannot exceed a budget
 * together.
 */
export class UsageBook {
  readonly #kept = new Map<string, Kept>();
  #sweptAtMs = 0;

  /** The counts for a key; later calls are counted in the same object. */
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

  /**
   * Discards old counts only after `keptMs` on the monotonic clock, so that setting the wall clock
   * ahead and back does not renew a budget.
   */
  #sweep(nowMs: number, monotonicMs: number): void {
    if (monotonicMs - this.#sweptAtMs < keptMs) return;
    this.#sweptAtMs = monotonicMs;
    for (const [key, { buckets, countedAtMs }] of this.#kept) {
      buckets.forgetBefore(minuteOf(nowMs - keptMs));
      if (monotonicMs - countedAtMs >= keptMs) this.#kept.delete(key);
    }
  }
}
