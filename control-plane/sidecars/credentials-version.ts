import { agentRowId } from '../agents/agent-row-id.ts';
import type { Transaction } from '../services.ts';

/**
 * A number that moves whenever the credentials that an agent's sidecars hold may have changed:
 * credentials themselves, or what the agent is capable of. In its sidecars' section, and in the
 * answer that brings the credentials.
 */
export async function credentialsVersion(
  tx: Pick<Transaction, 'credential' | 'agent'>,
  tenantId: string,
  agentId: string,
): Promise<number> {
  const id = agentRowId(agentId);
  const [{ _max, _sum, _count }, agent] = [
    await tx.credential.aggregate({
      where: { tenantId },
      _max: { updatedAt: true },
      _sum: { version: true },
      _count: true,
    }),
    id === undefined
      ? null
      : await tx.agent.findUnique({ where: { tenantId_id: { tenantId, id } } }),
  ];
  const latest = Math.max(_max.updatedAt?.getTime() ?? 0, agent?.updatedAt.getTime() ?? 0);
  // Two changes in one millisecond, or a credential that is gone, show in the sum and the count.
  return latest + (_sum.version ?? 0) + _count;
}
