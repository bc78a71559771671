import type { LedgerServices } from '../ledger-services.ts';
import type { End } from '../sealing/confirmed-end.ts';
import { reportLoss } from './report-loss.ts';
import { readVerification } from './verification-state.ts';

/** What the ledger's writing side tells and asks about one that was set back; `services` hold that side. */
export function sealingWitness(services: () => LedgerServices) {
  return {
    onRolledBack(tenantId: string, lost: End, ledgerPosition: number): void {
      const witness = 'this control plane saw';
      void reportLoss(services(), tenantId, { ...lost, ledgerPosition, witness });
    },
    async acceptedPosition(tenantId: string): Promise<number> {
      return (await readVerification(services(), tenantId)).acceptedPosition;
    },
  };
}
