import type { SectionName } from '../../shared/sync/sections.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** Publishes changed state to the sidecars. */
export interface ChangePublisher {
  /** Bumps the versions of the named sections. Call it in the transaction that changes the data. */
  changed(tx: Transaction, tenantId: string, ...sections: readonly SectionName[]): Promise<void>;
  /** Call it after that transaction to publish now instead of in the next round. Never rejects. */
  nudge(): void;
}
