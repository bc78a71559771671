import type { ChangeNotes } from '../core/commit-change.ts';
import type { Unverified, Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

interface Publication {
  readonly principal: string;
  readonly now: Date;
}

/**
 * Publishes a draft in the caller's transaction. First archives the published policy with the same
 * definition id, so that at most one of them is published.
 */
export async function publishDraft(
  tx: Transaction,
  notes: ChangeNotes,
  draft: Verified<Policy>,
  { principal, now }: Publication,
): Promise<Verified<Policy>> {
  const { tenantId, id, definitionId } = draft;
  const policies = notes.rows('policy');
  await lockFor(tx, tenantId, `publish ${definitionId}`);
  const former = await policies.findUnverified({
    where: { tenantId, definitionId, lifecycle: 'published', id: { not: id } },
  });
  for (const row of former) await archivePolicy(notes, row, { principal, now });
  const published = await policies.update(draft, {
    lifecycle: 'published',
    publishedAt: now,
    publishedBy: principal,
    updatedAt: now,
  });
  notes.sections('policies');
  await recordPolicyEvent(notes, 'policy.published', published, principal);
  return published;
}

/** Archives a published policy, unless it was archived meanwhile. */
export async function archivePolicy(
  notes: ChangeNotes,
  row: Unverified<Policy>,
  { principal, now }: Publication,
): Promise<void> {
  const changes = { lifecycle: 'archived', archivedAt: now, updatedAt: now };
  // If the row fails its integrity check, it is archived unchanged and is not signed again.
  const retiring = { changes, forged: 'keep' } as const;
  const published = { lifecycle: 'published' };
  const archived = await notes.rows('policy').retire(row, published, retiring);
  if (archived === undefined) return;
  notes.sections('policies');
  await recordPolicyEvent(notes, 'policy.archived', archived, principal);
}

/** Records an event about a change to a policy. */
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
