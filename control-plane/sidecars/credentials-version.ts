import { createHash } from 'node:crypto';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from '../records/agent-row-id.ts';

const versionBytes = 6;

/**
 * A number that changes whenever the credentials that an agent's sidecars hold may have changed:
 * credentials themselves, or what the agent is capable of. In its sidecars' section, and in the
 * answer that brings the credentials. It identifies a state and has no order: a sum of times and
 * versions could be the same after a removal.
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
  const rows = await tx.credential.findMany({
    where: { tenantId },
    select: { id: true, version: true },
    orderBy: { id: 'asc' },
  });
  if (rows.length === 0) return since.getTime();
  const state = [since.getTime(), ...rows.map(({ id, version }) => `${id} ${version}`)];
  // 48 bits, which a number holds exactly.
  return createHash('sha256').update(state.join('\n')).digest().readUIntBE(0, versionBytes);
}
