import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import { assertMayPublish, lifecycleInvalid, lockPolicy } from './policy-record.ts';
import { archivePolicy, recordPolicyEvent } from './publish-policy.ts';

/** Deletes a draft, or archives a published policy. An archived policy cannot be deleted. */
export async function deletePolicy(
  services: Services,
  caller: Caller,
  id: number,
): Promise<'deleted' | 'archived'> {
  const { tenantId, principal } = caller;
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const locked = await lockPolicy(notes, tenantId, id);
    const row = claimsOf(locked);
    switch (row.lifecycle) {
      case 'draft':
        await notes.rows('policy').remove({ tenantId, id });
        await recordPolicyEvent(notes, 'policy.deleted', row, principal);
        return 'deleted' as const;
      case 'published':
        assertMayPublish(caller);
        await archivePolicy(notes, locked, { principal, now });
        return 'archived' as const;
      default:
        throw lifecycleInvalid(row, 'deleted');
    }
  });
  return result;
}
