import type { JsonObject } from '../../../shared/base/json.ts';
import type { LedgerServices } from '../ledger-services.ts';
import type { End } from '../sealing/confirmed-end.ts';
import { raiseAlarm } from './alarm.ts';
import { changeIn, readVerification } from './verification-state.ts';

interface Loss extends End {
  /** Current last position of the ledger. */
  readonly ledgerPosition: number;
  /**
   * States who observed the lost end, as a phrase to insert into the message, such as `a sidecar
   * was told`.
   */
  readonly observation: string;
  readonly data?: JsonObject | undefined;
}

/**
 * Reports a ledger that was rolled back or rewritten. Records one event and one alert for each lost
 * end. Never rejects.
 */
export async function reportLoss(
  services: LedgerServices,
  tenantId: string,
  { position, treeRoot, ledgerPosition, observation, data = {} }: Loss,
): Promise<void> {
  await raiseAlarm(services, tenantId, {
    type: 'evidence.rolled_back',
    key: `${position} ${treeRoot}`,
    isOnce: true,
    data: {
      ...data,
      acknowledged_position: position,
      ledger_position: ledgerPosition,
      problem: {
        kind: ledgerPosition < position ? 'rolled_back' : 'rewritten',
        position: Math.min(ledgerPosition, position - 1) + 1,
        chain_id: null,
        message: `the ledger, which ends at ${ledgerPosition}, does not hold what ${observation} of ${position}`,
      },
      tree_root: treeRoot,
    },
    also: async (tx) => {
      const { lostPosition } = await readVerification(services, tenantId, tx);
      if (lostPosition >= position) return;
      await changeIn(tx, services, {
        tenantId,
        change: (before) => ({ ...before, lostPosition: Math.max(before.lostPosition, position) }),
      });
    },
  });
}
