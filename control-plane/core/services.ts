import type { LedgerServices } from '../ledger/ledger-services.ts';
import type { ChangePublisher } from './change-publisher.ts';
import type { OwnUsage } from './own-usage.ts';

/** Dependencies of use cases. `main.ts` builds them and closes them in reverse order. */
export interface Services extends LedgerServices {
  readonly publisher: ChangePublisher;
  /** Calls that this process allowed, for budgets. */
  readonly usage: OwnUsage;
}
