import { globsMayIntersect } from '../../shared/glob/glob-intersection.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/**
 * Returns the ids of the enrolled sidecars whose agents may call tools that match these globs. If
 * it cannot be decided whether globs intersect, they count as a match, because publishing a
 * sidecar's credentials again does no harm.
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
