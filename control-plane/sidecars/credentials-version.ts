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
  const agent =
    id === undefined
      ? null
      : await tx.agent.findUnique({ where: { tenantId_id: { tenantId, id } } });
  return tenantCredentialsVersion(tx, tenantId, agent?.updatedAt);
}

/** The same over a tenant's credentials alone: in the section `tenant`, which heartbeats cover. */
export async function tenantCredentialsVersion(
  tx: Pick<Transaction, 'credential'>,
  tenantId: string,
  since = new Date(0),
): Promise<number> {
  const { _max, _sum, _count } = await tx.credential.aggregate({
    where: { tenantId },
    _max: { updatedAt: true },
    _sum: { version: true },
    _count: true,
  });
  const latest = Math.max(_max.updatedAt?.getTime() ?? 0, since.getTime());
  // Two changes in one millisecond, or a credential that is gone, show in the sum and the count.
  return latest + (_sum.version ?? 0) + _count;
}
