import type { RiskTier } from '../../shared/vocabulary/action.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { unverified } from '../platform/signed-store/verified.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { toolApprovalDigest } from './effective-digest.ts';
import { expireApproval } from './expire-approvals.ts';
import { addRequesters } from './join-approval.ts';
import { notifyApproval } from './notify-approval.ts';
import { openStates } from './open-states.ts';

interface ToolApprovalRequest {
  readonly tenantId: string;
  /**
   * The principal who submitted the manifest, and the principals that count as the same person;
   * none of them may decide.
   */
  readonly requestedBy: readonly [string, ...string[]];
  readonly tool: string;
  readonly manifestHash: string;
  readonly riskTier: RiskTier;
  readonly reasonCode: string;
  readonly now: Date;
}

/**
 * Finds the open approval of this manifest, or opens one, in the transaction that registers the
 * manifest. The caller holds the tool's lock.
 */
export async function openToolApproval(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  request: ToolApprovalRequest,
): Promise<number> {
  const { tenantId, tool, manifestHash, now, requestedBy } = request;
  const found = await notes.rows('approval').findMany({
    where: { tenantId, kind: 'tool', tool, manifestHash, status: { in: openStates } },
  });
  for (const approval of found) {
    if (approval.expiresAt > now) return (await addRequesters(notes, approval, requestedBy)).id;
    await expireApproval(services, tx, notes, unverified(approval));
  }
  return create(services, tx, notes, request);
}

async function create(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, tool, manifestHash, now, riskTier, reasonCode, requestedBy }: ToolApprovalRequest,
): Promise<number> {
  const tenant = await notes.rows('tenant').findExisting({ where: { id: tenantId } });
  const expiresAt = new Date(now.getTime() + tenant.approvalSlaSeconds * 1000);
  const chainId = `tool:${tool}`;
  const approval = await notes.rows('approval').create({
    tenantId,
    kind: 'tool',
    agentId: '',
    userId: requestedBy[0],
    requestedBy: [...requestedBy],
    tool,
    resource: `tool:${tool}`,
    riskTier,
    reasonCode,
    summary: `Approve this version of the tool ${tool}.`,
    chainId,
    manifestHash,
    actionDigest: toolApprovalDigest(tenantId, tool, manifestHash),
    channels: [],
    requestedAt: now,
    expiresAt,
  });
  const expires_at = expiresAt.toISOString();
  const asked = { expires_at, requested_by: requestedBy[0], risk_tier: riskTier };
  const { id } = approval;
  const data = { approval_id: id, kind: 'tool', manifest_hash: manifestHash, ...asked };
  await notes.event({ type: 'approval.requested', chainId, tool, reasonCode, data });
  await notifyApproval(services, tx, 'approval.requested', approval);
  return id;
}
