import type { KeyRecord } from '../../shared/contract/keys.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { ApiKey } from '../platform/store/generated/client.ts';

/** Returns all keys of the caller's tenant, oldest first, including revoked ones. */
export async function listKeys(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly KeyRecord[]> {
  const rows = await signedRows(services, 'api_key').findValid({
    where: { tenantId },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
  });
  return rows.map(keyRecordOf);
}

/** A stored key as the API shows it. */
export function keyRecordOf(row: ApiKey): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    role: row.role as KeyRecord['role'],
    scope: row.scope as KeyRecord['scope'],
    principal: row.principal,
    ...(row.agentId === null ? {} : { agent_id: row.agentId }),
    hash: row.hash,
    start: row.start,
    last4: row.last4,
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
    expires_at: row.expiresAt?.toISOString() ?? null,
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
    revoked_at: row.revokedAt?.toISOString() ?? null,
  };
}
