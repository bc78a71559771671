import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import { Buckets } from '../../shared/usage/buckets.ts';
import { ToolUsage } from '../../shared/usage/tool-usage.ts';
import { type Release, UsageBook } from '../../shared/usage/usage-book.ts';
import type { Sums } from '../../shared/vocabulary/verdict.ts';
import type { UsageElsewhere } from '../control-plane/client.ts';

interface CounterOptions {
  readonly clock: Clock;
  /** Maximum age of the last response; the same as for policies. */
  readonly maxStalenessMs: number;
}

/** How long a call waits for the first request to the control plane. */
const patienceMs = 2_000;

/**
 * Counts the agent's usage of each tool that a budget refers to. The count is exact for calls that
 * this run permitted. All other usage is as in the control plane's last report.
 */
export class UsageCounter {
  /** Identifies this run's counts in the ledger. */
  readonly run: string;
  readonly #options: CounterOptions;
  readonly #book = new UsageBook();
  #elsewhere = new Map<string, Buckets>();
  #position = 0;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #isTried = false;
  #tried = Promise.withResolvers<void>();

  constructor(options: CounterOptions) {
    this.#options = options;
    this.run = newId('run', options.clock.now());
  }

  /** The ledger position up to which usage outside this run is known. */
  get position(): number {
    return this.#position;
  }

  /** False if usage outside this run was never received, or too long ago. */
  get isKnown(): boolean {
    const { clock, maxStalenessMs } = this.#options;
    return clock.monotonic() - this.#askedAtMs <= maxStalenessMs;
  }

  /** The agent's usage of a tool; undefined if usage outside this run is unknown. */
  of(tool: string): ToolUsage | undefined {
    if (!this.isKnown) return undefined;
    return new ToolUsage([this.#elsewhere.get(tool), this.#book.of(tool)]);
  }

  /** Counts a call; must run in the same tick as the decision. */
  count(tool: string, sums: Sums): Release {
    const { clock } = this.#options;
    return this.#book.count(tool, sums, { nowMs: clock.now(), monotonicMs: clock.monotonic() });
  }

  /** Applies a response to a request that was sent at `askedAtMs` on the monotonic clock. */
  takeOver({ position, after, buckets }: UsageElsewhere, askedAtMs: number): void {
    if (after === 0) this.#elsewhere = new Map();
    for (const { tool, ...bucket } of buckets) {
      const known = this.#elsewhere.get(tool) ?? new Buckets();
      this.#elsewhere.set(tool, known);
      known.set(bucket);
    }
    this.#position = position;
    this.#askedAtMs = askedAtMs;
    this.triedOnce();
  }

  /** Records that the first request was made: later calls do not wait for it. */
  triedOnce(): void {
    this.#isTried = true;
    this.#tried.resolve();
  }

  /**
   * Discards the totals when polling stops, because they become stale. The next call waits for new
   * totals.
   */
  rest(): void {
    this.#askedAtMs = Number.NEGATIVE_INFINITY;
    if (!this.#isTried) return;
    this.#isTried = false;
    this.#tried = Promise.withResolvers();
  }

  /**
   * Resolves after the first request to the control plane, or after `patienceMs`; undefined if that
   * request was already made.
   */
  firstTry(): Promise<void> | undefined {
    if (this.#isTried) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, patienceMs);
    void this.#tried.promise.then(resolve);
    return promise.finally(() => clearTimeout(timer));
  }
}
