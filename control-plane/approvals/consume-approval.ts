import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { proofOf } from './approval-proof.ts';
import { bumpApprovalSections } from './bump-approval-sections.ts';

interface Consumption {
  readonly approvalId: number;
  readonly eventHash: string;
  /** Principal or sidecar that uses the grant. */
  readonly usedBy: string;
}

/**
 * Consumes a grant, or one use of a standing grant, right before its action is performed. Returns
 * true only as often as the grant has uses, also for concurrent callers. After a crash, the use
 * stays consumed.
 */
export async function consumeApproval(
  services: Services,
  tenantId: string,
  consumption: Consumption,
): Promise<boolean> {
  const { result } = await commitChange(services, tenantId, (tx, notes) =>
    consumeIn(services, tx, notes, { tenantId, ...consumption }),
  );
  return result;
}

async function consumeIn(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, approvalId: id, eventHash, usedBy }: Consumption & { readonly tenantId: string },
): Promise<boolean> {
  const now = new Date(services.clock.now()).toISOString();
  // The statement counts the use under the row's lock, so concurrent callers see each other's uses.
  const count = await tx.$executeRaw`
    update approval set
      uses_spent = uses_spent + 1,
      used_at = case when uses_spent + 1 >= grant_uses then ${now}::timestamptz else used_at end,
      used_by = ${usedBy}
    where tenant_id = ${tenantId} and id = ${id} and event_hash = ${eventHash}
      and status in ('approved', 'modified') and used_at is null and uses_spent < grant_uses
      and grant_revoked_at is null and grant_expires_at > ${now}::timestamptz`;
  if (count === 0) return false;
  const query = { where: { tenantId_id: { tenantId, id } } };
  // Before this use, the signed values were the same except for these two.
  const consumed = await notes
    .rows('approval')
    .signChange(query, ({ usesSpent }) => ({ usesSpent: usesSpent - 1, usedAt: null }));
  await assertWithinGrant(tx, consumed);
  // Sidecars are notified only when the last use is consumed.
  if (consumed.usedAt !== null) await bumpApprovalSections(notes, consumed);
  await recordUse(notes, consumed, usedBy);
  return true;
}

/** Throws if more uses are consumed than the grant's ledger row allows. */
async function assertWithinGrant(tx: Transaction, approval: Verified<Approval>): Promise<void> {
  const proof = await proofOf(tx, approval);
  const uses = proof?.standing?.uses ?? 1;
  if (proof?.granted === true && approval.usesSpent <= uses) return;
  throw new GatewayError('approval.invalid');
}

async function recordUse(
  notes: ChangeNotes,
  approval: Verified<Approval>,
  usedBy: string,
): Promise<void> {
  await notes.event({
    type: 'approval.used',
    chainId: approval.chainId,
    agentId: approval.agentId,
    userId: approval.userId,
    tool: approval.tool,
    resource: approval.resource,
    data: {
      approval_hash: approval.eventHash,
      approval_id: approval.id,
      effective_digest: approval.effectiveDigest ?? undefined,
      grant_uses: approval.grantUses,
      use: approval.usesSpent,
      used_by: usedBy,
    },
  });
}
