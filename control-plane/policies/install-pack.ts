import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import type { Mode } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { insertDraft, nextVersion } from './create-policy.ts';
import { loadPack } from './load-packs.ts';
import { assertMayPublish } from './policy-record.ts';
import { publishDraft } from './publish-policy.ts';

interface Installation {
  readonly pack: string;
  readonly publish: boolean;
  readonly mode?: Mode | undefined;
}

interface Installed {
  readonly outcome: 'created' | 'published' | 'unchanged';
  readonly row: Policy;
}

/**
 * Stores all policies of a pack, or none. Skips a policy whose definition already exists as a draft
 * or a published policy. If an operator changed a policy, stores the pack's version as a draft,
 * which replaces the changed policy only if `publish` is set.
 */
export async function installPack(
  services: Services,
  caller: Caller,
  { pack: name, publish, mode }: Installation,
): Promise<readonly Installed[]> {
  if (publish) assertMayPublish(caller);
  const { policies, title } = await loadPack(name);
  const { tenantId, principal } = caller;
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'policies');
    const installed: Installed[] = [];
    for (const { definition } of policies) {
      const wanted = mode === undefined ? definition : { ...definition, mode };
      const place = { tx, notes, tenantId, principal, now, publish };
      installed.push(await installOne(place, { definition: wanted, title }));
    }
    return installed;
  });
  return result;
}

interface Place {
  readonly tx: Transaction;
  readonly notes: ChangeNotes;
  readonly tenantId: string;
  readonly principal: string;
  readonly now: Date;
  readonly publish: boolean;
}

interface Wanted {
  readonly definition: PolicyDefinition;
  readonly title: string;
}

async function installOne(place: Place, wanted: Wanted): Promise<Installed> {
  const { tx, notes, tenantId, publish } = place;
  const hash = policyHash(wanted.definition);
  // Locks the rows until the transaction ends, so that nobody publishes or changes them meanwhile.
  await tx.$queryRaw`select id from policy
    where tenant_id = ${tenantId} and policy_hash = ${hash} and lifecycle <> 'archived' for update`;
  const policies = notes.rows('policy');
  const same = await policies.findUnverified({
    where: { tenantId, lifecycle: { not: 'archived' }, policyHash: hash },
    orderBy: { id: 'asc' },
  });
  const published = same.map(claimsOf).find(({ lifecycle }) => lifecycle === 'published');
  if (published) return { outcome: 'unchanged', row: published };
  const [draft] = same;
  if (draft && !publish) return { outcome: 'unchanged', row: claimsOf(draft) };
  const row = draft ? policies.verify(draft) : await createDraft(place, wanted);
  return {
    outcome: draft ? 'published' : 'created',
    row: publish ? await publishDraft(tx, notes, row, place) : row,
  };
}

async function createDraft(place: Place, { definition, title }: Wanted): Promise<Verified<Policy>> {
  const { notes, tenantId } = place;
  const definitionId = definition.id;
  return insertDraft(place, {
    tenantId,
    name: title,
    definitionId,
    version: await nextVersion(notes, { tenantId, definitionId }),
    definition: JSON.stringify(definition),
    policyHash: policyHash(definition),
  });
}
