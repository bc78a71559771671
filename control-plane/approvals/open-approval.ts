import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { decidersSuffice } from '../../shared/vocabulary/deciders.ts';
import { satisfiesTerms } from '../../shared/vocabulary/grant-terms.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { sealProposal } from './approval-args.ts';
import { decidersOf } from './approval-proof.ts';
import type { ApprovalRequest } from './approval-request.ts';
import { expireApproval } from './expire-approvals.ts';
import { joinApproval } from './join-approval.ts';
import { notifyApproval } from './notify-approval.ts';
import { deliveredMs, openStates } from './open-states.ts';
import { standingGrantsFor } from './standing-grants.ts';

/**
 * Maximum number of undecided approvals of one agent. A larger number would hide the important
 * ones.
 */
const openMax = 100;

/**
 * Finds the open approval for exactly this action, or opens one; at most one exists at any time. If
 * a recent decision has not reached the sidecar yet, returns that decision, so that nobody is asked
 * twice.
 */
export async function openApproval(
  services: Services,
  request: ApprovalRequest,
): Promise<Verified<Approval>> {
  const { tenantId, agentId } = request.action;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `approvals of ${agentId}`);
    const found = await findOpen(services, tx, notes, request);
    if (found !== undefined) return joinApproval(notes, found, request);
    const decided = await findDecided(services, tx, notes, request);
    if (decided !== undefined) return decided;
    await assertRoomForOne(services, notes, request.action);
    return create(services, tx, notes, request);
  });
  return result;
}

async function findOpen(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { action, actionDigest }: ApprovalRequest,
): Promise<Verified<Approval> | undefined> {
  const { tenantId, agentId } = action;
  const approvals = notes.rows('approval');
  const found = await approvals.findUnverified({
    where: { tenantId, agentId, actionDigest, kind: 'action', status: { in: openStates } },
  });
  for (const approval of found) {
    const isOverdue = claimsOf(approval).expiresAt.getTime() <= services.clock.now();
    if (!isOverdue) return approvals.verify(approval);
    await expireApproval(services, tx, notes, approval);
  }
  return undefined;
}

/**
 * Finds a recent decision that the sidecar will soon receive. Prefers a usable grant to a denial
 * that still applies, as the sidecar does.
 */
async function findDecided(
  { clock, guard }: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { action, actionDigest, sidecarId, terms }: ApprovalRequest,
): Promise<Verified<Approval> | undefined> {
  if (sidecarId === undefined) return undefined;
  const { tenantId, agentId } = action;
  const standing = await standingGrantsFor({ clock, guard }, tx, { action, actionDigest });
  const usable = standing.find(
    ({ proof }) =>
      proof.standing !== undefined &&
      satisfiesTerms(proof.standing, terms) &&
      decidersSuffice(proof.deciders, terms),
  );
  if (usable !== undefined) return usable.approval;
  const nowMs = clock.now();
  const decided = await notes.rows('approval').findValid({
    where: {
      tenantId,
      agentId,
      actionDigest,
      kind: 'action',
      sidecarId,
      usedAt: null,
      grantScope: null,
      grantRevokedAt: null,
      status: { in: ['approved', 'modified', 'denied'] },
      decidedAt: { gt: new Date(nowMs - deliveredMs) },
    },
    orderBy: { id: 'desc' },
  });
  const isUsable = (approval: Verified<Approval>) =>
    (approval.grantExpiresAt?.getTime() ?? 0) > nowMs &&
    decidersSuffice(decidersOf(approval), terms);
  return decided.find(isUsable) ?? decided.find(({ status }) => status === 'denied');
}

async function assertRoomForOne(
  { clock }: Services,
  notes: ChangeNotes,
  { tenantId, agentId }: Action,
): Promise<void> {
  const open = await notes.rows('approval').count({
    tenantId,
    agentId,
    status: { in: openStates },
    expiresAt: { gt: new Date(clock.now()) },
  });
  if (open >= openMax) throw new GatewayError('approval.too_many_open');
}

async function create(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  request: ApprovalRequest,
): Promise<Verified<Approval>> {
  const { action, terms, sidecarId } = request;
  const { tenantId, agentId } = action;
  const nowMs = services.clock.now();
  const tenant = await notes.rows('tenant').findExisting({ where: { id: tenantId } });
  const slaSeconds = terms.slaSeconds ?? tenant.approvalSlaSeconds;
  const approvals = notes.rows('approval');
  const bare = await approvals.create({
    tenantId,
    agentId,
    userId: action.userId,
    tool: action.tool,
    resource: action.resource,
    riskTier: request.riskTier,
    reasonCode: request.reasonCode,
    summary: request.summary,
    chainId: agentChain(agentId),
    policyHash: request.policyHash ?? null,
    manifestHash: request.manifestHash ?? null,
    actionDigest: request.actionDigest,
    channels: [...terms.channels],
    minRole: terms.minRole,
    quorum: terms.quorum,
    ...(terms.grant === undefined ? {} : { grantLimits: { ...terms.grant } }),
    goal: action.goal ?? null,
    requestedBy: [...request.requestedBy],
    sidecarId: sidecarId ?? null,
    requestedAt: new Date(nowMs),
    expiresAt: new Date(nowMs + slaSeconds * 1000),
  });
  // The encryption binds the arguments to the row's id, so the row is created first.
  const proposedArgs = sealProposal(services, bare, action);
  const approval = await approvals.update(bare, { proposedArgs });
  if (sidecarId !== undefined) notes.sections(sidecarSection(sidecarId));
  await recordRequest(notes, approval, request);
  await notifyApproval(services, tx, 'approval.requested', approval);
  return approval;
}

async function recordRequest(
  notes: ChangeNotes,
  approval: Verified<Approval>,
  { action, matchedRules, terms }: ApprovalRequest,
): Promise<void> {
  await notes.event({
    type: 'approval.requested',
    chainId: approval.chainId,
    agentId: approval.agentId,
    userId: approval.userId,
    tool: approval.tool,
    resource: approval.resource,
    reasonCode: approval.reasonCode,
    data: {
      action_digest: approval.actionDigest,
      approval_id: approval.id,
      channels: terms.channels,
      expires_at: approval.expiresAt.toISOString(),
      goal: action.goal,
      grant_limits: terms.grant && {
        max_ttl_seconds: terms.grant.ttlSeconds,
        max_uses: terms.grant.uses,
        scope: terms.grant.scope,
      },
      manifest_hash: approval.manifestHash ?? undefined,
      matched_rules: matchedRules,
      min_role: terms.minRole,
      policy_hash: approval.policyHash ?? undefined,
      quorum: terms.quorum,
      requested_by: approval.requestedBy,
      risk_tier: approval.riskTier,
    },
  });
}
