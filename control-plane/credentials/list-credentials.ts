import type { CredentialRecord } from '../../shared/contract/credentials.ts';
import type { Services } from '../core/services.ts';
import { queryOn } from '../integrity/active-versions.ts';
import { reportOutdated, sortCredentials } from '../integrity/current-credentials.ts';
import type { Caller } from '../platform/access/caller.ts';
import { credentialRecordOf } from './stored-credential.ts';

/**
 * Returns the metadata of the tenant's credentials, sorted by name. Omits outdated rows that were
 * restored in the database, and reports them.
 */
export async function listCredentials(
  { db, pool, guard, vault }: Pick<Services, 'db' | 'pool' | 'guard' | 'vault'>,
  { tenantId }: Caller,
): Promise<readonly CredentialRecord[]> {
  const deps = { db, query: queryOn(pool), guard, vault };
  const { current, outdated } = await sortCredentials(deps, tenantId);
  for (const { row, as } of outdated) reportOutdated(deps, row, as);
  return current.map(credentialRecordOf);
}
