import { sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';

/**
 * Bumps the sections that deliver an approval: the section of the requesting sidecar and, for a
 * standing grant or a denial, the sections of all sidecars of the agent.
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
