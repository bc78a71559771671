/** Ids of the kill switches that were armed when the ledger ended at `position`. */
export interface ArmedKillSwitches {
  readonly ids: readonly string[];
  readonly position: number;
}
