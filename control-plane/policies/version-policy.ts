import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { insertDraft, nextVersion } from './insert-draft.ts';
import { lifecycleInvalid, lockPolicy } from './policy-record.ts';

/** Makes a draft of a policy that is published or archived, and so cannot change itself. */
export async function versionPolicy(
  services: Services,
  { tenantId, principal }: Caller,
  id: number,
): Promise<Policy> {
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'policies');
    const source = await lockPolicy(tx, tenantId, id);
    if (source.lifecycle === 'draft') {
      throw lifecycleInvalid(source, 'cloned', `PUT /v1/policies/${id} changes it`);
    }
    notes.assertOurs('policy', source);
    const { name, definitionId, definition, policyHash } = source;
    return insertDraft(
      { tx, notes, principal, now },
      {
        ...{ tenantId, name, definitionId, definition, policyHash },
        version: await nextVersion(tx, source),
        clonedFrom: id,
      },
    );
  });
  return result;
}
