import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import { Buckets } from '../../shared/usage/buckets.ts';
import { ToolUsage } from '../../shared/usage/tool-usage.ts';
import { type Release, UsageBook } from '../../shared/usage/usage-book.ts';
import type { Sums } from '../../shared/vocabulary/verdict.ts';
import type { UsageElsewhere } from '../control-plane/client.ts';

interface CounterOptions {
  readonly clock: Clock;
  /** How old the last answer may be: as old as the policies. */
  readonly maxStalenessMs: number;
}

/** How long a first call waits for the control plane to be asked once. */
const patienceMs = 2_000;

/**
 * Counts the agent's usage of each tool that a budget refers to: the calls that this run of the
 * sidecar permitted, exactly, and the usage elsewhere as the control plane last reported it.
 */
export class UsageCounter {
  /** Names this run's counts in the ledger. */
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

  /** Up to which position of the ledger everything elsewhere is known. */
  get position(): number {
    return this.#position;
  }

  /** False while usage elsewhere was never received, or too long ago. */
  get isKnown(): boolean {
    const { clock, maxStalenessMs } = this.#options;
    return clock.monotonic() - this.#askedAtMs <= maxStalenessMs;
  }

  /** Undefined when it cannot be known. */
  of(tool: string): ToolUsage | undefined {
    if (!this.isKnown) return undefined;
    return new ToolUsage([this.#elsewhere.get(tool), this.#book.of(tool)]);
  }

  /** Counts a call in the tick of its decision. */
  count(tool: string, sums: Sums): Release {
    const { clock } = this.#options;
    return this.#book.count(tool, sums, { nowMs: clock.now(), monotonicMs: clock.monotonic() });
  }

  /** Takes over an answer to a question put at `askedAtMs` on the monotonic clock. */
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

  /** From now on calls do not wait for a first answer any more. */
  triedOnce(): void {
    this.#isTried = true;
    this.#tried.resolve();
  }

  /** Discards the totals after polling stopped, because they are stale; the next user waits for new. */
  rest(): void {
    this.#askedAtMs = Number.NEGATIVE_INFINITY;
    if (!this.#isTried) return;
    this.#isTried = false;
    this.#tried = Promise.withResolvers();
  }

  /** Resolves once the control plane was asked, or has taken too long; undefined when it was. */
  firstTry(): Promise<void> | undefined {
    if (this.#isTried) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, patienceMs);
    void this.#tried.promise.then(resolve);
    return promise.finally(() => clearTimeout(timer));
  }
}
