import type { Sums } from '../vocabulary/verdict.ts';

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;
/** Nothing older is of any use; the minute that a window ends in counts whole. */
export const keptMs = dayMs + hourMs;

/** The minute, since the epoch, that a moment lies in. */
export function minuteOf(ms: number): number {
  return Math.floor(ms / minuteMs);
}

/**
 * Until when a call of that minute counts in a window: all calls of a minute are taken for its last
 * moment, so that a window is never shorter than it is called, and a minute longer at most.
 */
export function countsUntilMs(minute: number, windowMs: number): number {
  return (minute + 1) * minuteMs + windowMs;
}

/** What was done in one minute. */
export interface Bucket {
  readonly minute: number;
  readonly calls: number;
  readonly sums: Sums;
}

interface Held {
  calls: number;
  readonly sums: Map<string, number>;
}

/** Calls of one tool by one agent, by the minute in which they were permitted. */
export class Buckets {
  readonly #byMinute = new Map<number, Held>();
  /** Undefined when it has to be made anew. */
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

  /** Takes back a call that was counted and does not go through after all. */
  remove(minute: number, sums: Sums): void {
    const held = this.#byMinute.get(minute);
    if (held === undefined) return;
    this.#totals = undefined;
    held.calls -= 1;
    // What would remain of sums that were added and taken back is noise.
    if (held.calls === 0) this.#byMinute.delete(minute);
    for (const [path, amount] of Object.entries(sums)) {
      held.sums.set(path, (held.sums.get(path) ?? 0) - amount);
    }
  }

  /** Takes what somebody else says of a minute for what was known of it. */
  set({ minute, calls, sums }: Bucket): void {
    this.#totals = undefined;
    this.#byMinute.set(minute, { calls, sums: new Map(Object.entries(sums)) });
  }

  /** Forgets what no window can reach any more. */
  forgetBefore(minute: number): void {
    this.#totals = undefined;
    for (const known of this.#byMinute.keys()) {
      if (known < minute) this.#byMinute.delete(known);
    }
  }

  /** From when on nothing counts that is here now. */
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

/** The first minute that still counts: see `countsUntilMs`. */
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
 * For each minute in ascending order, what was done from then on: a window is one look-up, however
 * many minutes it spans. The calls are kept under the empty path.
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

  /** Counts one call; false, and nothing is changed, for one that came before the last minute. */
  add(minute: number, sums: Sums): boolean {
    const { lastMinute } = this;
    if (lastMinute !== undefined && minute < lastMinute) return false;
    if (minute !== lastMinute) this.#minutes.push(minute);
    this.#raise('', 1);
    for (const [path, amount] of Object.entries(sums)) this.#raise(path, amount);
    return true;
  }

  /** What was done from a minute on. */
  since(path: string, minute: number): number {
    const totals = this.#since.get(path);
    return totals?.[this.#firstFrom(minute)] ?? 0;
  }

  /** What happens in the last minute happens after every other. */
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
