import { type Buckets, dayMs, hourMs } from './buckets.ts';

/** What one agent has already done with one tool, as its decider knows it. */
export class ToolUsage {
  readonly #parts: readonly Buckets[];

  /** Takes what the decider counted itself, and what others did. */
  constructor(parts: readonly (Buckets | undefined)[]) {
    this.#parts = parts.filter((part) => part !== undefined);
  }

  callsIn1h(nowMs: number): number {
    return this.#total((part) => part.callsIn(hourMs, nowMs));
  }

  callsIn24h(nowMs: number): number {
    return this.#total((part) => part.callsIn(dayMs, nowMs));
  }

  /** Of the values at a path below `args`. */
  sumIn24h(path: string, nowMs: number): number {
    return this.#total((part) => part.sumIn(dayMs, nowMs, path));
  }

  /** From when on nothing counts that does now. What counts changes at whole minutes only. */
  get emptyFromMs(): number {
    return Math.max(...this.#parts.map((part) => part.emptyFromMs));
  }

  #total(of: (part: Buckets) => number): number {
    let total = 0;
    for (const part of this.#parts) total += of(part);
    return total;
  }
}

/** Sums of decimals are off by the last binary digit: 0.1 and 0.2 are to come to 0.3. */
export function asDecimal(sum: number): number {
  return Number(sum.toPrecision(15));
}
