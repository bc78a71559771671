import type { ChangeNotes } from '../core/commit-change.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

interface Publication {
  readonly principal: string;
  readonly now: Date;
}

/**
 * Publishes a draft in the caller's transaction. Archives the published policy with the same
 * definition id first, so that at most one is published.
 */
export async function publishDraft(
  tx: Transaction,
  notes: ChangeNotes,
  draft: Policy,
  { principal, now }: Publication,
): Promise<Policy> {
  const { tenantId, id, definitionId } = draft;
  notes.assertSigned('policy', draft);
  await lockFor(tx, tenantId, `publish ${definitionId}`);
  const former = await tx.policy.findMany({
    where: { tenantId, definitionId, lifecycle: 'published', id: { not: id } },
  });
  for (const row of former) await archivePolicy(tx, notes, row, { principal, now });
  const stored = await tx.policy.update({
    where: { tenantId_id: { tenantId, id } },
    data: { lifecycle: 'published', publishedAt: now, publishedBy: principal, updatedAt: now },
  });
  const published = await notes.signed('policy', stored);
  notes.sections('policies');
  await recordPolicyEvent(notes, 'policy.published', published, principal);
  return published;
}

/** Archives a published policy, unless it was archived meanwhile. */
export async function archivePolicy(
  tx: Transaction,
  notes: ChangeNotes,
  row: Policy,
  { principal, now }: Publication,
): Promise<void> {
  const { count } = await tx.policy.updateMany({
    where: { tenantId: row.tenantId, id: row.id, lifecycle: 'published' },
    data: { lifecycle: 'archived', archivedAt: now, updatedAt: now },
  });
  if (count === 0) return;
  // A row that fails its integrity check is archived as it is and is not signed again.
  if (notes.isSigned('policy', row))
    await notes.signed('policy', { ...row, lifecycle: 'archived' });
  notes.sections('policies');
  await recordPolicyEvent(notes, 'policy.archived', row, principal);
}

/** Records the event of a change to a policy. */
export async function recordPolicyEvent(
  notes: ChangeNotes,
  type: `policy.${string}`,
  { id, name, definitionId, version, policyHash }: Policy,
  principal: string,
): Promise<void> {
  await notes.event({
    type,
    chainId: `policy:${id}`,
    data: {
      by: principal,
      definition_id: definitionId,
      name,
      policy_hash: policyHash,
      policy_id: id,
      version,
    },
  });
}
