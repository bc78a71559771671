/** One line of a benchmark: ours and a baseline, measured side by side in the same run. */
export interface BenchRow {
  readonly row: string;
  readonly ours: number;
  readonly baseline: number;
  readonly baselineName: string;
  /** `ours / baseline`. */
  readonly ratio: number;
  readonly unit: string;
  /** Half the distance between the best and the worst run, relative to the median. */
  readonly spread: number;
}
