import type { RiskTier } from '../vocabulary/action.ts';
import type { ApprovalStatus } from '../vocabulary/tool-record.ts';
import { type Drift, driftReason, isMaterial } from './drift.ts';

/** The stored approval state of a tool before a new version is submitted. */
interface StoredToolStatus {
  readonly manifestHash: string;
  readonly approvedHash?: string | undefined;
  readonly approvalStatus: ApprovalStatus;
}

export interface NextToolStatus {
  readonly approvalStatus: ApprovalStatus;
  readonly approvedHash: string | undefined;
  readonly driftReason: string | undefined;
}

/**
 * The status of a tool after a version was submitted. `drifts` lists the changes since the
 * *approved* manifest (empty if no manifest was approved). A pending tool stays pending, whatever
 * risk tier a later version declares. Returning to the approved version needs no approval.
 */
export function nextStatus(submitted: {
  readonly hash: string;
  readonly riskTier: RiskTier;
  readonly standing?: StoredToolStatus | undefined;
  readonly drifts: readonly Drift[];
}): NextToolStatus {
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

function approved(hash: string): NextToolStatus {
  return { approvalStatus: 'approved', approvedHash: hash, driftReason: undefined };
}

function waits(
  approvalStatus: ApprovalStatus,
  approvedHash?: string,
  reason?: string,
): NextToolStatus {
  return { approvalStatus, approvedHash, driftReason: reason };
}
