import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type UserRecord, userRecordOf } from './user-record.ts';

/** What policies know of a user. */
export async function readUser(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
  id: string,
): Promise<UserRecord> {
  const row = await db.directoryUser.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (row === null) throw new GatewayError('user.not_found');
  guard.assert('directory_user', row);
  return userRecordOf(row);
}
