import type { KeyRecord } from '../../shared/contract/keys.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { keyRecordOf } from './key-record.ts';

/** Every key of the caller's tenant, oldest first, revoked ones included. */
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
