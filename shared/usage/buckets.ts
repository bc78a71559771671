import type { Sums } from '../vocabulary/verdict.ts';

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;
/**
 * How long buckets are kept: the longest window, with a margin, because the minute in which a
 * window ends counts completely.
 */
export const keptMs = dayMs + hourMs;

/** The minute since the epoch that contains a moment. */
export function minuteOf(ms: number): number {
  return Math.floor(ms / minuteMs);
}

/**
 * Time until which a call in this minute counts in a window. Every call counts as made at the last
 * moment of its minute, so that a window is never shorter than configured and at most a minute
 * longer.
 */
export function countsUntilMs(minute: number, windowMs: number): number {
  return (minute + 1) * minuteMs + windowMs;
}

/** The usage of one minute. */
export interface Bucket {
  readonly minute: number;
  readonly calls: number;
  readonly sums: Sums;
}

interface Held {
  calls: number;
  readonly sums: Map<string, number>;
}

/** Calls of one tool by one agent, by the minute in which they were allowed. */
export class Buckets {
  readonly #byMinute = new Map<number, Held>();
  /** Cached totals; undefined if they must be computed again. */
  #totals: Totals | undefined;

  /** Counts one call. */
  add(minute: number, sums: Sums): void {
    const held = this.#byMinute.get(minute) ?? { calls: 0, sums: new Map<string, number>() };
    this.#byMinute.set(minute, held);
    held.calls += 1;
    for (const [path, amount] of Object.entries(sums)) {
      held.sums.set(path, (held.sums.get(path) ?? 0) + amount);
    }
    if (this.#totals?.add(minute, sums) === false) this.#totals = undefined;
  }

  /** Removes a counted call that was not performed. */
  remove(minute: number, sums: Sums): void {
    const held = this.#byMinute.get(minute);
    if (held === undefined) return;
    this.#totals = undefined;
    held.calls -= 1;
    // Discards sums without calls, because floating-point subtraction leaves residues.
    if (held.calls === 0) this.#byMinute.delete(minute);
    for (const [path, amount] of Object.entries(sums)) {
      held.sums.set(path, (held.sums.get(path) ?? 0) - amount);
    }
  }

  /** Replaces the counts of a minute with those that another deciding program reports. */
  set({ minute, calls, sums }: Bucket): void {
    this.#totals = undefined;
    this.#byMinute.set(minute, { calls, sums: new Map(Object.entries(sums)) });
  }

  /** Discards buckets that no window reaches. */
  forgetBefore(minute: number): void {
    this.#totals = undefined;
    for (const known of this.#byMinute.keys()) {
      if (known < minute) this.#byMinute.delete(known);
    }
  }

  /** The time from which no window contains any of the current counts. */
  get emptyFromMs(): number {
    const last = this.#table.lastMinute;
    return last === undefined ? Number.NEGATIVE_INFINITY : countsUntilMs(last, dayMs);
  }

  callsIn(windowMs: number, nowMs: number): number {
    return this.#table.since('', oldestIn(windowMs, nowMs));
  }

  sumIn(windowMs: number, nowMs: number, path: string): number {
    return this.#table.since(path, oldestIn(windowMs, nowMs));
  }

  get #table(): Totals {
    this.#totals ??= totalsOf(this.#byMinute);
    return this.#totals;
  }
}

/** The first minute that still counts; see `countsUntilMs`. */
function oldestIn(windowMs: number, nowMs: number): number {
  return Math.floor((nowMs - windowMs) / minuteMs);
}

function totalsOf(byMinute: ReadonlyMap<number, Held>): Totals {
  const totals = new Totals();
  const minutes = [...byMinute.keys()].sort((one, other) => one - other);
  for (const minute of minutes) {
    const { calls, sums } = byMinute.get(minute) ?? { calls: 0, sums: [] };
    totals.append(minute, calls, sums);
  }
  return totals;
}

/**
 * For each minute in ascending order, the usage since that minute. The usage of a window needs only
 * one look-up, however many minutes the window spans. The empty path holds the number of calls.
 */
class Totals {
  readonly #minutes: number[] = [];
  readonly #since = new Map<string, number[]>([['', []]]);

  get lastMinute(): number | undefined {
    return this.#minutes.at(-1);
  }

  /** Adds a minute after all others. */
  append(minute: number, calls: number, sums: Iterable<readonly [string, number]>): void {
    this.#minutes.push(minute);
    this.#raise('', calls);
    for (const [path, amount] of sums) this.#raise(path, amount);
  }

  /**
   * Counts one call. Returns false, without a change, if the call is older than the last minute.
   */
  add(minute: number, sums: Sums): boolean {
    const { lastMinute } = this;
    if (lastMinute !== undefined && minute < lastMinute) return false;
    if (minute !== lastMinute) this.#minutes.push(minute);
    this.#raise('', 1);
    for (const [path, amount] of Object.entries(sums)) this.#raise(path, amount);
    return true;
  }

  /** The usage since a minute. */
  since(path: string, minute: number): number {
    const totals = this.#since.get(path);
    return totals?.[this.#firstFrom(minute)] ?? 0;
  }

  /** A call in the last minute adds to the totals of every earlier minute. */
  #raise(path: string, amount: number): void {
    const totals = this.#since.get(path) ?? [];
    this.#since.set(path, totals);
    while (totals.length < this.#minutes.length) totals.push(0);
    for (let at = 0; at < totals.length; at += 1) totals[at] = (totals[at] ?? 0) + amount;
  }

  #firstFrom(minute: number): number {
    let first = 0;
    let end = this.#minutes.length;
    while (first < end) {
      const middle = (first + end) >> 1;
      if ((this.#minutes[middle] ?? minute) < minute) first = middle + 1;
      else end = middle;
    }
    return first;
  }
}
