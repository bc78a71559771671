import { sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/**
 * Moves the sections that carry an approval: of the sidecar that asked; of a standing grant, which
 * any of the agent's sidecars may use, and of a denial, which none may get around, those of all.
 */
export async function bumpApprovalSections(
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, agentId, sidecarId, grantScope, status }: Approval,
): Promise<void> {
  if (sidecarId !== null) notes.sections(sidecarSection(sidecarId));
  if (grantScope === null && status !== 'denied') return;
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, agentId, revokedAt: null },
    select: { id: true },
  });
  notes.sections(...sidecars.map(({ id }) => sidecarSection(id)));
}
