import { sidecarSection } from '../../shared/sync/sections.ts';
import { type ChangeNotes, commitChange } from '../events.ts';
import type { Services, Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';

interface Spending {
  readonly approvalId: number;
  readonly eventHash: string;
  /** The principal or sidecar who uses it. */
  readonly usedBy: string;
}

/**
 * Uses up a grant, right before its action is performed: true for exactly one caller. A crash
 * after this leaves it spent.
 */
export async function spendApproval(
  services: Services,
  tenantId: string,
  spending: Spending,
): Promise<boolean> {
  const { result } = await commitChange(services, tenantId, (tx, notes) =>
    spendIn(services, tx, notes, { tenantId, ...spending }),
  );
  return result;
}

async function spendIn(
  { clock }: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, approvalId: id, eventHash, usedBy }: Spending & { readonly tenantId: string },
): Promise<boolean> {
  const { count } = await tx.approval.updateMany({
    where: { tenantId, id, eventHash, usedAt: null, status: { in: ['approved', 'modified'] } },
    data: { usedAt: new Date(clock.now()), usedBy },
  });
  if (count === 0) return false;
  const approval = await tx.approval.findUniqueOrThrow({
    where: { tenantId_id: { tenantId, id } },
  });
  if (approval.sidecarId !== null) notes.sections(sidecarSection(approval.sidecarId));
  await noteUse(notes, approval, usedBy);
  return true;
}

async function noteUse(notes: ChangeNotes, approval: Approval, usedBy: string): Promise<void> {
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
      used_by: usedBy,
    },
  });
}
