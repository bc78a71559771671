import type { z } from 'zod';
import type { getUser, putUser as putOperation } from '../../shared/contract/users.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { DirectoryUser } from '../platform/store/generated/client.ts';

type Fields = z.output<NonNullable<(typeof putOperation)['body']>>;

/**
 * Stores a user's directory entry, and replaces the whole existing entry. The event contains the
 * role but not the address, because personal data in the ledger could never be erased.
 */
export async function putUser(
  services: Services,
  { tenantId, principal }: Caller,
  { id, fields }: { readonly id: string; readonly fields: Fields },
): Promise<UserRecord> {
  const { email = null, role = null } = fields;
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const updatedAt = new Date(services.clock.now());
    const row = await notes.rows('directory_user').put({ tenantId, id, email, role, updatedAt });
    await notes.event({
      type: 'user.written',
      chainId: 'users:directory',
      userId: id,
      data: { by: principal, role, has_email: email !== null },
    });
    notes.sections('agents');
    return row;
  });
  return userRecordOf(result);
}

export type UserRecord = z.input<NonNullable<(typeof getUser)['success']['schema']>>;

export function userRecordOf({ id, email, role, updatedAt }: Verified<DirectoryUser>): UserRecord {
  return { id, email, role, updated_at: updatedAt.toISOString() };
}

/** Returns the attributes of a user that policies can read. */
export async function readUser(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
  id: string,
): Promise<UserRecord> {
  const users = signedRows(services, 'directory_user');
  const row = await users.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (row === null) throw new GatewayError('user.not_found');
  return userRecordOf(row);
}
