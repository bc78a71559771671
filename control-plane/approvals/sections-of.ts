import { sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../events.ts';
import type { Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';

/**
 * Moves the sections that carry an approval: of the sidecar that asked, and of a standing grant
 * of every sidecar of its agent, for any of them may use it.
 */
export async function moveSectionsOf(
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, agentId, sidecarId, grantScope }: Approval,
): Promise<void> {
  if (sidecarId !== null) notes.sections(sidecarSection(sidecarId));
  if (grantScope === null) return;
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, agentId, revokedAt: null },
    select: { id: true },
  });
  notes.sections(...sidecars.map(({ id }) => sidecarSection(id)));
}
