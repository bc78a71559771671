import { signSuccession } from '../../shared/sync/key-succession.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';

/**
 * Leads a sidecar from the section key that it pinned, however long ago, to the active one: every
 * retired key names the next. Asked for over the sidecar's own authenticated channel, so that
 * whoever has an old key and the bus still cannot name a key of their own.
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
