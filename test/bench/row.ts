/** One line of `npm run bench`: the product and its baseline, measured in the same run. */
export interface BenchRow {
  readonly row: string;
  readonly ours: number;
  readonly baseline: number;
  readonly baselineName: string;
  /** Value of the product divided by that of the baseline. */
  readonly ratio: number;
  readonly unit: string;
  /** Half of the range of the product's rounds, divided by the median of these rounds. */
  readonly spread: number;
}

export interface Summary {
  readonly median: number;
  readonly spread: number;
}

/** Returns the median of repeated measurements, and half of their range divided by the median. */
export function summarise(values: readonly number[]): Summary {
  const sorted = values.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return { median, spread: ((sorted.at(-1) ?? 0) - (sorted[0] ?? 0)) / 2 / median };
}
