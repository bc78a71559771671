import { type Buckets, dayMs, hourMs } from './buckets.ts';

/** The past use of one tool by one agent, as far as the deciding program knows it. */
export class ToolUsage {
  readonly #parts: readonly Buckets[];

  /** `parts`: the deciding program's own counts, and the counts of other deciding programs. */
  constructor(parts: readonly (Buckets | undefined)[]) {
    this.#parts = parts.filter((part) => part !== undefined);
  }

  callsIn1h(nowMs: number): number {
    return this.#total((part) => part.callsIn(hourMs, nowMs));
  }

  callsIn24h(nowMs: number): number {
    return this.#total((part) => part.callsIn(dayMs, nowMs));
  }

  /** Sum of the values at a path below `args`. */
  sumIn24h(path: string, nowMs: number): number {
    return this.#total((part) => part.sumIn(dayMs, nowMs, path));
  }

  /**
   * The time from which no window contains any of the current counts. Windows change at whole
   * minutes only.
   */
  get emptyFromMs(): number {
    return Math.max(...this.#parts.map((part) => part.emptyFromMs));
  }

  #total(of: (part: Buckets) => number): number {
    let total = 0;
    for (const part of this.#parts) total += of(part);
    return total;
  }
}

/** Rounds binary errors of decimal sums, so that 0.1 and 0.2 give 0.3. */
export function asDecimal(sum: number): number {
  return Number(sum.toPrecision(15));
}
