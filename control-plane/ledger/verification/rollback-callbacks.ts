import type { LedgerServices } from '../ledger-services.ts';
import type { End } from '../sealing/confirmed-end.ts';
import { reportLoss } from './report-loss.ts';
import { readVerification } from './verification-state.ts';

/** Callbacks of the sealer: it reports a ledger that was rolled back, and asks which loss was accepted. */
export function rollbackCallbacks(services: () => LedgerServices) {
  return {
    onRolledBack(tenantId: string, lost: End, ledgerPosition: number): void {
      const observation = 'this control plane saw';
      void reportLoss(services(), tenantId, { ...lost, ledgerPosition, observation });
    },
    async acceptedPosition(tenantId: string): Promise<number> {
      return (await readVerification(services(), tenantId)).acceptedPosition;
    },
  };
}
