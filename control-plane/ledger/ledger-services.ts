import type { Platform } from '../platform/platform.ts';
import type { EvidenceFeed } from './reading/feed.ts';
import type { Ledger } from './sealing/ledger.ts';

/** The platform's services and the ledger. */
export interface LedgerServices extends Platform {
  readonly ledger: Ledger;
  /** Streams the ledger to clients that follow it. */
  readonly feed: EvidenceFeed;
}
