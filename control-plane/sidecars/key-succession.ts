import { signSuccession } from '../../shared/sync/key-succession.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';

/**
 * Returns the chain of section keys from the key that the sidecar pinned to the active key: each
 * retired key signs its successor. Served over the sidecar's authenticated channel, so that
 * somebody who stole an old key and has access to the bus cannot introduce a key.
 */
export async function keySuccession(
  { signingKeys }: Pick<Services, 'signingKeys'>,
  { tenantId }: Caller,
): Promise<readonly string[]> {
  const keys = await signingKeys.history(tenantId, 'sync');
  return keys.slice(1).flatMap((next, index) => {
    const before = keys[index];
    return before === undefined ? [] : [signSuccession(tenantId, before, next.publicJwk)];
  });
}
