import { sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';

/**
 * Bumps the sections that deliver an approval: that of the sidecar that asked, or those of all the
 * agent's sidecars for a standing grant or a denial, because these apply to each of them.
 */
export async function bumpApprovalSections(
  notes: ChangeNotes,
  { tenantId, agentId, sidecarId, grantScope, status }: Verified<Approval>,
): Promise<void> {
  if (sidecarId !== null) notes.sections(sidecarSection(sidecarId));
  if (grantScope === null && status !== 'denied') return;
  const sidecars = await notes.rows('sidecar').findClaims(['id'], {
    where: { tenantId, agentId, revokedAt: null },
  });
  notes.sections(...sidecars.map(({ id }) => sidecarSection(id)));
}
