/** The ids of kill switches that were armed when the ledger ended at a position. */
export interface Armed {
  readonly ids: readonly string[];
  readonly position: number;
}
