import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { assertMayPublish, lifecycleInvalid, lockPolicy } from './policy-record.ts';
import { publishDraft, recordPolicyEvent } from './publish-policy.ts';

interface NewPolicy {
  readonly name: string;
  /** A definition, or its JSON text. */
  readonly rules: unknown;
  readonly publish: boolean;
}

/** Stores a policy as a draft or published at once. An invalid policy is not stored. */
export async function createPolicy(
  services: Services,
  caller: Caller,
  { name, rules, publish }: NewPolicy,
): Promise<Policy> {
  if (publish) assertMayPublish(caller);
  const definition = await runWithPauses(parsePolicyInSteps(rules), pauser(services.clock));
  const { tenantId, principal } = caller;
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'policies');
    const draft = await insertDraft(
      { tx, notes, principal, now },
      {
        tenantId,
        name,
        definitionId: definition.id,
        version: firstVersion(definition.version),
        definition: JSON.stringify(definition),
        policyHash: policyHash(definition),
      },
    );
    return publish ? publishDraft(tx, notes, draft, { principal, now }) : draft;
  });
  return result;
}

/** The stored version starts at the definition's own version, if that is a valid number. */
function firstVersion(version: number): number {
  return Number.isInteger(version) && version >= 1 && version <= 1_000_000_000 ? version : 1;
}

/** Creates a draft from a published or archived policy, which itself cannot change. */
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
    notes.assertSigned('policy', source);
    const { name, definitionId, definition, policyHash } = source;
    return insertDraft(
      { tx, notes, principal, now },
      {
        tenantId,
        name,
        definitionId,
        definition,
        policyHash,
        version: await nextVersion(tx, source),
        clonedFrom: id,
      },
    );
  });
  return result;
}

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

/**
 * Stores a new draft, if the tenant's plan allows one more. Call it under the lock on `policies`.
 */
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
  await recordPolicyEvent(notes, 'policy.created', row, principal);
  return row;
}

/** Highest version of this definition id so far, plus one. */
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
