import type { KeyRecord } from '../../shared/contract/keys.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { ApiKeyModel } from '../platform/store/generated/models/ApiKey.ts';

/** All keys of the caller's tenant, oldest first, including revoked ones. */
export async function listKeys(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly KeyRecord[]> {
  const rows = await db.apiKey.findMany({
    where: { tenantId },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
  });
  return rows.filter((row) => guard.holds('api_key', row)).map(keyRecordOf);
}

/** A stored key as the API shows it. */
export function keyRecordOf(row: ApiKeyModel): KeyRecord {
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
