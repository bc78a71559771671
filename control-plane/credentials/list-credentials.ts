import type { CredentialRecord } from '../../shared/contract/credentials.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { credentialRecordOf } from './stored-credential.ts';

/** The tenant's credentials as metadata, by name. */
export async function listCredentials(
  { db }: Pick<Services, 'db'>,
  { tenantId }: Caller,
): Promise<readonly CredentialRecord[]> {
  const rows = await db.credential.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
  return rows.map(credentialRecordOf);
}
