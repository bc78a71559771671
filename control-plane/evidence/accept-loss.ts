import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { ledgerChain } from '../ledger/sealing/incident.ts';
import {
  changeIn,
  readVerification,
  unverified,
  type VerificationState,
} from '../ledger/verification/verification-state.ts';
import type { Caller } from '../platform/access/caller.ts';

/**
 * Accepts uploads again from sidecars whose acknowledged positions are lost. The loss is still
 * reported.
 */
export async function acceptLoss(
  services: Services,
  { tenantId, principal }: Caller,
  { position, reason }: { readonly position: number; readonly reason: string },
) {
  await commitChange(services, tenantId, async (tx, notes) => {
    await notes.event({
      type: 'evidence.loss_accepted',
      chainId: ledgerChain,
      userId: principal,
      data: { by: principal, position, reason },
    });
    await changeIn(tx, services, {
      tenantId,
      // Resets the verification state, because it describes the ledger before the loss.
      change: ({ lostPosition, acceptedPosition }) => ({
        ...unverified,
        lostPosition,
        acceptedPosition: Math.max(acceptedPosition, position),
      }),
    });
  });
  return verificationRecord(await readVerification(services, tenantId));
}

export function verificationRecord(state: VerificationState) {
  const timeOf = (ms: number) => (ms === 0 ? null : new Date(ms).toISOString());
  return {
    position: state.upTo.tree.size,
    verified_at: timeOf(state.verifiedAtMs),
    whole_at: timeOf(state.wholeAtMs),
    problem: state.problem,
    lost_position: state.lostPosition || null,
    accepted_position: state.acceptedPosition || null,
  };
}
