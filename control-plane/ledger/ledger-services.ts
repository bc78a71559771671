import type { Platform } from '../platform/platform.ts';
import type { EvidenceFeed } from './reading/feed.ts';
import type { Ledger } from './sealing/ledger.ts';

/** The platform with the ledger on top. */
export interface LedgerServices extends Platform {
  readonly ledger: Ledger;
  /** The reading side of the ledger, for clients that follow it. */
  readonly feed: EvidenceFeed;
}
