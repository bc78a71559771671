import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { bumpApprovalSections } from './bump-approval-sections.ts';
import { notifyApproval } from './notify-approval.ts';
import { storeDecisionHashes } from './store-decision-hashes.ts';

interface RevokedGrant {
  readonly revokedAt: Date;
  readonly usesSpent: number;
}

/**
 * Revokes the unused part of a grant. After the commit no use can be consumed, even by a sidecar
 * that still holds the grant. Revoking again changes nothing.
 */
export async function revokeGrant(
  services: Services,
  { tenantId, principal }: Caller,
  id: number,
): Promise<RevokedGrant> {
  await storeDecisionHashes(services, tenantId);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const approvals = notes.rows('approval');
    await approvals.lock({ tenantId, id });
    const approval = await approvals.findUnique({ where: { tenantId_id: { tenantId, id } } });
    if (approval === null) throw new GatewayError('approval.not_found');
    const { grantRevokedAt, usesSpent } = approval;
    if (grantRevokedAt !== null) return { revokedAt: grantRevokedAt, usesSpent };
    const nowMs = services.clock.now();
    assertHeld(approval, nowMs);
    const revokedAt = new Date(nowMs);
    const changes = { grantRevokedAt: revokedAt, grantRevokedBy: principal };
    const revoked = await approvals.update(approval, changes);
    await bumpApprovalSections(notes, approval);
    await notes.event({
      type: 'approval.grant_revoked',
      chainId: approval.chainId,
      agentId: approval.agentId,
      userId: approval.userId,
      tool: approval.tool,
      resource: approval.resource,
      reasonCode: 'approval.grant_revoked',
      data: {
        approval_hash: approval.eventHash ?? undefined,
        approval_id: id,
        by: principal,
        grant_uses: approval.grantUses,
        uses_spent: usesSpent,
      },
    });
    await notifyApproval(services, tx, 'approval.grant_revoked', revoked);
    return { revokedAt, usesSpent };
  });
  return result;
}

function assertHeld(
  { kind, status, usedAt, grantExpiresAt }: Verified<Approval>,
  nowMs: number,
): void {
  const isGranted = kind === 'action' && (status === 'approved' || status === 'modified');
  const isOver = usedAt !== null || (grantExpiresAt?.getTime() ?? 0) <= nowMs;
  if (isGranted && !isOver) return;
  throw new GatewayError('approval.transition_invalid', {
    message: isGranted
      ? 'The grant is consumed or expired, so there is nothing to revoke.'
      : 'The approval has no grant to revoke.',
  });
}
