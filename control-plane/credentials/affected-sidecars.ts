import { globsMayIntersect } from '../../shared/glob/glob-intersection.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/**
 * The live sidecars whose agents may call tools that these globs name. Their credentials are
 * invalidated, so that an undecided intersection counts as one.
 */
export async function affectedSidecars(
  tx: Pick<Transaction, 'sidecar' | 'agent'>,
  tenantId: string,
  globs: readonly string[],
): Promise<readonly string[]> {
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, revokedAt: null },
    select: { id: true, agentId: true },
  });
  const agentIds = [...new Set(sidecars.map(({ agentId }) => Number(agentId)))];
  const agents = await tx.agent.findMany({
    where: { tenantId, id: { in: agentIds.filter(Number.isSafeInteger) } },
    select: { id: true, capabilities: true },
  });
  const reached = new Set(
    agents
      .filter(({ capabilities }) => globsMayIntersect(capabilities, globs, 'tool'))
      .map(({ id }) => String(id)),
  );
  return sidecars.filter(({ agentId }) => reached.has(agentId)).map(({ id }) => id);
}
