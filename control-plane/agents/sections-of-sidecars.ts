import { type SectionName, sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';

/**
 * Returns the sections of the agent's sidecars. The leases and credentials in these sections depend
 * on the agent's capabilities.
 */
export async function sectionsOfSidecars(
  notes: ChangeNotes,
  { tenantId, id }: Verified<Agent>,
): Promise<readonly SectionName[]> {
  const sidecars = await notes.rows('sidecar').findClaims(['id'], {
    where: { tenantId, agentId: String(id), revokedAt: null },
  });
  return sidecars.map((sidecar) => sidecarSection(sidecar.id));
}
