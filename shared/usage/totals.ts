import type { Sums } from '../vocabulary/verdict.ts';

/**
 * For each minute in ascending order, what was done from then on: a window is one look-up, however
 * many minutes it spans. The calls are kept under the empty path.
 */
export class Totals {
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
