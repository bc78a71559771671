import type { z } from 'zod';
import type { getUser } from '../../shared/contract/users.ts';
import type { DirectoryUserModel } from '../platform/store/generated/models/DirectoryUser.ts';

export type UserRecord = z.input<NonNullable<(typeof getUser)['success']['schema']>>;

export function userRecordOf({ id, email, role, updatedAt }: DirectoryUserModel): UserRecord {
  return { id, email, role, updated_at: updatedAt.toISOString() };
}
