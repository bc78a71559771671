/** One line of `npm run bench`: ours and what it is measured against, in the same run. */
export interface BenchRow {
  readonly row: string;
  readonly ours: number;
  readonly baseline: number;
  readonly baselineName: string;
  /** `ours / baseline`. */
  readonly ratio: number;
  readonly unit: string;
  /** Largest less smallest of the rounds, over the median, of ours. */
  readonly spread: number;
}
