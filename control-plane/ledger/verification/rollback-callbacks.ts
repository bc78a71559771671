import type { LedgerServices } from '../ledger-services.ts';
import type { End } from '../sealing/confirmed-end.ts';
import { reportLoss } from './report-loss.ts';
import { readVerification } from './verification-state.ts';

/**
 * Callbacks of the sealer: one reports a rolled-back ledger, the other reads which loss an operator
 * accepted.
 */
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
