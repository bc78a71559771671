import type { Ledger } from '../evidence/ledger.ts';
import type { EvidenceFeed } from '../evidence/reading/feed.ts';
import type { Platform } from '../platform/platform.ts';

/** The platform with the ledger on top. */
export interface LedgerServices extends Platform {
  readonly ledger: Ledger;
  /** The reading side of the ledger, for clients that follow it. */
  readonly feed: EvidenceFeed;
}
