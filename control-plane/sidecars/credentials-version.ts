import { createHash } from 'node:crypto';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from '../records/agent-row-id.ts';

const versionBytes = 6;

/**
 * A number that changes whenever the credentials of an agent's sidecars may have changed: the
 * credentials or the agent's capabilities. The sidecar's section and the response with the
 * credentials contain it. It is a hash, because a sum of times and versions could repeat after a
 * removal.
 */
export async function credentialsVersion(
  db: Pick<Transaction, 'credential' | 'agent'>,
  tenantId: string,
  agentId: string,
): Promise<number> {
  const id = agentRowId(agentId);
  const [agent] =
    id === undefined
      ? []
      : await claimedRows(db, 'agent').findClaims(['updatedAt'], { where: { tenantId, id } });
  return tenantCredentialsVersion(db, tenantId, agent?.updatedAt);
}

/**
 * Like `credentialsVersion`, for all credentials of a tenant. It is published in the section
 * `tenant`, which heartbeats cover.
 */
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
  // 48 bits, which a number represents exactly.
  return createHash('sha256').update(state.join('\n')).digest().readUIntBE(0, versionBytes);
}
