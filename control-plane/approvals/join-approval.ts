import { sharePerson } from '../../shared/approval/persons.ts';
import { higherRisk, narrower } from '../../shared/approval/stricter-terms.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { type RiskTier, riskTiers } from '../../shared/vocabulary/action.ts';
import { stricterRole } from '../../shared/vocabulary/roles.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { grantLimitsOf } from './approval-record.ts';
import type { ApprovalRequest } from './approval-request.ts';

/**
 * Updates an open approval when the same action is requested again: adds requesters and the waiting
 * sidecar, records that the user authenticated again, and raises the terms if the rules now require
 * more.
 */
export async function joinApproval(
  notes: ChangeNotes,
  approval: Verified<Approval>,
  request: ApprovalRequest,
): Promise<Verified<Approval>> {
  const changes = {
    ...raisedTo(approval, request),
    requestedBy: askedBy(approval, request.requestedBy),
    sidecarId: request.sidecarId ?? approval.sidecarId,
    reauthRequiredAt: isUserBack(approval, request) ? null : approval.reauthRequiredAt,
  };
  const joined: Approval = { ...approval, ...changes };
  const moves = joined.sidecarId !== approval.sidecarId;
  if (!moves && isUnchanged(approval, joined)) return approval;
  if (moves) {
    const waiting = [joined.sidecarId, approval.sidecarId].filter((id) => id !== null);
    notes.sections(...waiting.map(sidecarSection));
  }
  return changeOpen(notes, approval, changes);
}

async function changeOpen(
  notes: ChangeNotes,
  approval: Verified<Approval>,
  changes: Partial<Approval>,
): Promise<Verified<Approval>> {
  const { status } = approval;
  const changed = await notes.rows('approval').updateIf(approval, { status }, changes);
  // The approval was decided meanwhile; the next request finds the decision.
  if (changed === undefined) throw new GatewayError('approval.unavailable');
  return changed;
}

/** Adds principals that requested the same action and so may not decide on it. */
export async function addRequesters(
  notes: ChangeNotes,
  approval: Verified<Approval>,
  more: readonly string[],
): Promise<Verified<Approval>> {
  const requestedBy = askedBy(approval, more);
  if (requestedBy.length === approval.requestedBy.length) return approval;
  return changeOpen(notes, approval, { requestedBy });
}

function isUserBack({ reauthRequiredAt }: Approval, { authenticatedAtMs = 0 }: ApprovalRequest) {
  return reauthRequiredAt !== null && authenticatedAtMs > reauthRequiredAt.getTime();
}

function askedBy({ requestedBy }: Approval, more: readonly string[]): string[] {
  return [...requestedBy, ...more.filter((name) => !sharePerson(requestedBy, [name]))];
}

/**
 * Returns the stricter of the stored and the requested terms, so that a rule change cannot relax an
 * open approval.
 */
function raisedTo(approval: Approval, { terms, riskTier }: ApprovalRequest) {
  return {
    minRole: stricterRole(approval.minRole, terms.minRole),
    quorum: Math.max(approval.quorum, terms.quorum),
    riskTier: higherRisk(storedRisk(approval), riskTier),
    grantLimits: narrowed(approval, terms.grant),
  };
}

function narrowed(approval: Approval, limits: ApprovalRequest['terms']['grant']) {
  const narrow = narrower(grantLimitsOf(approval), limits);
  return narrow === undefined ? null : { ...narrow };
}

/** An unreadable risk tier counts as the highest. */
function storedRisk({ riskTier }: Approval): RiskTier {
  return riskTiers.find((known) => known === riskTier) ?? 'critical';
}

function isUnchanged(before: Approval, after: Approval): boolean {
  const limits = (row: Approval) => JSON.stringify(grantLimitsOf(row) ?? null);
  return (
    after.requestedBy.length === before.requestedBy.length &&
    after.reauthRequiredAt === before.reauthRequiredAt &&
    after.minRole === before.minRole &&
    after.quorum === before.quorum &&
    after.riskTier === before.riskTier &&
    limits(after) === limits(before)
  );
}
