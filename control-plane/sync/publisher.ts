import type { SectionName } from '../../shared/sync/sections.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** Carries changed state to the sidecars. */
export interface Publisher {
  /** Moves the versions of the named sections: call inside the transaction that changes the data. */
  changed(tx: Transaction, tenantId: string, ...sections: readonly SectionName[]): Promise<void>;
  /** After that transaction: publish now rather than at the next round. Never rejects. */
  nudge(): void;
}
