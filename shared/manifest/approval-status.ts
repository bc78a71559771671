import type { RiskTier } from '../vocabulary/action.ts';
import type { ApprovalStatus } from '../vocabulary/tool-record.ts';
import { type Drift, driftReason, isMaterial } from './drift.ts';

/** What is on record about a tool before another version of it comes in. */
interface ToolStanding {
  readonly manifestHash: string;
  readonly approvedHash?: string | undefined;
  readonly approvalStatus: ApprovalStatus;
}

export interface NextStanding {
  readonly approvalStatus: ApprovalStatus;
  readonly approvedHash: string | undefined;
  readonly driftReason: string | undefined;
}

/**
 * Where a tool stands once a version of it was submitted. `drifts` are those from the *approved*
 * manifest (none when nothing was approved yet). What waits for a human keeps waiting, whatever
 * risk a later version claims; going back to what was approved needs nobody.
 */
export function nextStatus(submitted: {
  readonly hash: string;
  readonly riskTier: RiskTier;
  readonly standing?: ToolStanding | undefined;
  readonly drifts: readonly Drift[];
}): NextStanding {
  const { hash, riskTier, standing, drifts } = submitted;
  if (standing === undefined) {
    const isRisky = riskTier === 'high' || riskTier === 'critical';
    return isRisky ? waits('pending_approval') : approved(hash);
  }
  const { approvedHash } = standing;
  if (standing.approvalStatus === 'rejected' && standing.manifestHash === hash) {
    return waits('rejected', approvedHash);
  }
  if (approvedHash === undefined) return waits('pending_approval');
  if (approvedHash === hash) return approved(hash);
  return isMaterial(drifts)
    ? waits('reapproval_required', approvedHash, driftReason(drifts))
    : approved(hash);
}

function approved(hash: string): NextStanding {
  return { approvalStatus: 'approved', approvedHash: hash, driftReason: undefined };
}

function waits(
  approvalStatus: ApprovalStatus,
  approvedHash?: string,
  reason?: string,
): NextStanding {
  return { approvalStatus, approvedHash, driftReason: reason };
}
