import type { Clock } from '../../shared/base/clock.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** How long denials are counted before one event reports them. */
const summaryMs = 1_000;
/** Policies can set any number of reason codes; codes beyond this number are counted together. */
const reasonsMax = 64;
const otherReasons = 'other';

/** Denials that have no event of their own. */
export interface DenialSummary {
  /** Time of the first of these denials, in milliseconds since the epoch. */
  readonly sinceMs: number;
  readonly total: number;
  readonly counts: ReadonlyMap<string, number>;
}

interface DenialThrottleOptions {
  /** Maximum number of denials per second that are recorded one by one. */
  readonly perSecond: number;
  /** Maximum number of denials in a burst that are recorded one by one. */
  readonly burst: number;
  readonly clock: Clock;
  /** Records a summary. If it rejects, the counts are part of the next summary. */
  readonly report: (summary: DenialSummary) => Promise<void>;
}

/**
 * A token bucket for the records of denied calls. Denials for which no token is left are counted by
 * reason, and a summary reports the counts every second. Only denied calls consume tokens, so a
 * summary never replaces the record of an allowed call.
 */
export class DenialThrottle {
  readonly #options: DenialThrottleOptions;
  readonly #counts = new Map<string, number>();
  #tokens: number;
  #filledAtMs: number;
  #sinceMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #total = 0;

  constructor(options: DenialThrottleOptions) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#filledAtMs = options.clock.monotonic();
  }

  /** Number of denials since the start that were counted and not recorded one by one. */
  get total(): number {
    return this.#total;
  }

  /** True if this denial gets a record of its own; otherwise it is counted. */
  admit(reasonCode: string): boolean {
    const { perSecond, burst, clock } = this.#options;
    const nowMs = clock.monotonic();
    const gained = ((nowMs - this.#filledAtMs) / 1_000) * perSecond;
    this.#tokens = Math.min(burst, this.#tokens + gained);
    this.#filledAtMs = nowMs;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return true;
    }
    this.#total += 1;
    this.#count(reasonCode, 1);
    return false;
  }

  #count(reasonCode: string, times: number): void {
    if (this.#counts.size === 0) this.#sinceMs = this.#options.clock.now();
    const isNew = !this.#counts.has(reasonCode) && this.#counts.size >= reasonsMax;
    const reason = isNew ? otherReasons : reasonCode;
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + times);
    this.#timer ??= setTimeout(() => void this.#flush(), summaryMs).unref();
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#counts.size === 0) return;
    const counts = new Map(this.#counts);
    const sinceMs = this.#sinceMs;
    this.#counts.clear();
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    try {
      await this.#options.report({ sinceMs, total, counts });
    } catch {
      for (const [reason, times] of counts) this.#count(reason, times);
      this.#sinceMs = sinceMs;
    }
  }

  /** Reports the remaining counts. */
  async close(): Promise<void> {
    await this.#flush();
    clearTimeout(this.#timer);
  }
}

/** The error for a denial without a record of its own. */
export function throttled(reasonCode: string): GatewayError {
  return new GatewayError('rate_limited.denials', {
    message: `The call was denied (${reasonCode}), as too many calls before it. The sidecar no longer records each denial by itself; wait a second before the next call.`,
  });
}

/** Returns the error itself, or `rate_limited.denials` if the denial gets no record of its own. */
export function orThrottled(
  error: GatewayError,
  { denials }: { readonly denials: Pick<DenialThrottle, 'admit'> },
): GatewayError {
  if (error.code === 'rate_limited.denials' || denials.admit(error.code)) return error;
  return throttled(error.code);
}

/** The value of Retry-After: within this time, the bucket gains at least one token. */
export const throttledRetrySeconds = 1;
