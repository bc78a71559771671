import type { SectionName } from '../../shared/sync/sections.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** Publishes changed state to the sidecars. */
export interface ChangePublisher {
  /** Bumps the versions of the named sections. Call it in the transaction that changes the data. */
  changed(tx: Transaction, tenantId: string, ...sections: readonly SectionName[]): Promise<void>;
  /**
   * Publishes now instead of in the next round. Call it after the transaction of `changed`. Never
   * rejects.
   */
  nudge(): void;
}
