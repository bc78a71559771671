import { globsMayIntersect } from '../../shared/glob/glob-intersection.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/**
 * Ids of the enrolled sidecars whose agents may call tools that match these globs. The caller
 * publishes their credentials again, so an undecided intersection counts as a match.
 */
export async function affectedSidecars(
  db: Pick<Transaction, 'sidecar' | 'agent'>,
  tenantId: string,
  globs: readonly string[],
): Promise<readonly string[]> {
  const sidecars = await claimedRows(db, 'sidecar').findClaims(['id', 'agentId'], {
    where: { tenantId, revokedAt: null },
  });
  const agentIds = [...new Set(sidecars.map(({ agentId }) => Number(agentId)))];
  const agents = await claimedRows(db, 'agent').findClaims(['id', 'capabilities'], {
    where: { tenantId, id: { in: agentIds.filter(Number.isSafeInteger) } },
  });
  const reached = new Set(
    agents
      .filter(({ capabilities }) => globsMayIntersect(capabilities, globs, 'tool'))
      .map(({ id }) => String(id)),
  );
  return sidecars.filter(({ agentId }) => reached.has(agentId)).map(({ id }) => id);
}
