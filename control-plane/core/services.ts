import type { LedgerServices } from '../ledger/ledger-services.ts';
import type { Publisher } from '../sync/publisher.ts';
import type { OwnUsage } from './own-usage.ts';

/** What use cases are given. Built in `main.ts`, closed there in reverse order. */
export interface Services extends LedgerServices {
  readonly publisher: Publisher;
  /** What this process permitted, for budgets. */
  readonly usage: OwnUsage;
}
