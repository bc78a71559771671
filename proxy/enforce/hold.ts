import { digestOf } from '../../shared/approval/action-digest.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { EnforceDeps } from './deps.ts';
import type { Judgement } from './judge.ts';

/** How a held call may go on. */
export type HoldOutcome = 'granted' | 'denied' | 'expired' | 'pending';

/** Asks a human: opens the approval for exactly this action, or joins the one already open. */
export async function openApproval(
  { action, verdict }: Judgement,
  deps: Pick<EnforceDeps, 'controlPlane' | 'replica'>,
): Promise<Pick<DeliveredApproval, 'id' | 'expiresAtMs'>> {
  return deps.controlPlane.openApproval(
    action,
    digestOf(action, deps.replica.tool(action.tool)?.manifestHash),
    verdict,
  );
}

/**
 * Waits for the human's decision to come over the bus, for `holdMs` at most and only while the
 * agent is still there. `pending` means that nobody decided yet.
 */
export function awaitDecision(
  approvalId: number,
  signal: AbortSignal,
  { replica, identity, holdMs }: Pick<EnforceDeps, 'replica' | 'identity' | 'holdMs'>,
): Promise<HoldOutcome> {
  return new Promise((resolve) => {
    const settle = (outcome: HoldOutcome) => {
      clearTimeout(timer);
      unsubscribe();
      signal.removeEventListener('abort', giveUp);
      resolve(outcome);
    };
    const giveUp = () => settle('pending');
    const look = () => {
      const outcome = outcomeOf(replica.approvalById(approvalId));
      if (outcome !== 'pending') settle(outcome);
    };
    const timer = setTimeout(giveUp, holdMs);
    const unsubscribe = replica.onChange(sidecarSection(identity.sidecarId), look);
    if (signal.aborted) giveUp();
    else signal.addEventListener('abort', giveUp, { once: true });
    look();
  });
}

export function outcomeOf(approval: DeliveredApproval | undefined): HoldOutcome {
  switch (approval?.status) {
    case 'approved':
    case 'modified':
      return 'granted';
    case 'denied':
      return 'denied';
    case 'expired':
      return 'expired';
    case 'pending':
    case undefined:
      return 'pending';
  }
}
