import { type SectionName, sidecarSection } from '../../shared/sync/sections.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/**
 * Sections of the agent's sidecars: their leases and credentials depend on the agent's
 * capabilities.
 */
export async function sectionsOfSidecars(
  tx: Pick<Transaction, 'sidecar'>,
  { tenantId, id }: Pick<Agent, 'tenantId' | 'id'>,
): Promise<readonly SectionName[]> {
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, agentId: String(id), revokedAt: null },
    select: { id: true },
  });
  return sidecars.map((sidecar) => sidecarSection(sidecar.id));
}
