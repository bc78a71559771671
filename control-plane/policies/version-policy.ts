import { commitChange, lockFor } from '../events.ts';
import type { Caller } from '../http/route.ts';
import { assertWithinPlan } from '../plan.ts';
import type { Services, Transaction } from '../services.ts';
import type { Policy } from '../store/generated/client.ts';
import { lifecycleInvalid, lockPolicy } from './policy-record.ts';
import { notePolicy } from './publish-policy.ts';

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
    const present = await tx.policy.count({ where: { tenantId, lifecycle: { not: 'archived' } } });
    await assertWithinPlan(tx, tenantId, { feature: 'policies', present });
    const { name, definitionId, definition, policyHash } = source;
    const draft = await tx.policy.create({
      data: {
        ...{ tenantId, name, definitionId, definition, policyHash },
        version: await nextVersion(tx, source),
        clonedFrom: id,
        createdBy: principal,
        createdAt: now,
        updatedAt: now,
      },
    });
    await notePolicy(notes, 'policy.created', draft, principal);
    return draft;
  });
  return result;
}

/** One more than any policy with this definition id ever had. */
async function nextVersion(tx: Transaction, { tenantId, definitionId }: Policy): Promise<number> {
  const { _max } = await tx.policy.aggregate({
    where: { tenantId, definitionId },
    _max: { version: true },
  });
  return (_max.version ?? 0) + 1;
}
