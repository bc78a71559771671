import type { ChangeNotes } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { notePolicy } from './publish-policy.ts';

interface NewDraft
  extends Pick<Policy, 'tenantId' | 'name' | 'definitionId' | 'definition' | 'policyHash'> {
  readonly version: number;
  readonly clonedFrom?: number;
}

interface Insertion {
  readonly tx: Transaction;
  readonly notes: ChangeNotes;
  readonly principal: string;
  readonly now: Date;
}

/** Stores a new draft, if the tenant's plan has room; call it under the lock for `policies`. */
export async function insertDraft(
  { tx, notes, principal, now }: Insertion,
  draft: NewDraft,
): Promise<Policy> {
  const { tenantId } = draft;
  const present = await tx.policy.count({ where: { tenantId, lifecycle: { not: 'archived' } } });
  await assertWithinPlan(tx, tenantId, { feature: 'policies', present, notes });
  const created = await tx.policy.create({
    data: { ...draft, createdBy: principal, createdAt: now, updatedAt: now },
  });
  const row = await notes.signed('policy', created);
  await notePolicy(notes, 'policy.created', row, principal);
  return row;
}

/** One more than any policy with this definition id ever had. */
export async function nextVersion(
  tx: Transaction,
  { tenantId, definitionId }: Pick<Policy, 'tenantId' | 'definitionId'>,
): Promise<number> {
  const { _max } = await tx.policy.aggregate({
    where: { tenantId, definitionId },
    _max: { version: true },
  });
  return (_max.version ?? 0) + 1;
}
