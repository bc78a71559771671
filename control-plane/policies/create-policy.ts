import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { assertMayPublish, lifecycleInvalid, lockPolicy } from './policy-record.ts';
import { publishDraft, recordPolicyEvent } from './publish-policy.ts';

interface NewPolicy {
  readonly name: string;
  /** A policy definition, or its JSON text. */
  readonly rules: unknown;
  readonly publish: boolean;
}

/** Stores a policy as a draft, or publishes it at once. Does not store an invalid policy. */
export async function createPolicy(
  services: Services,
  caller: Caller,
  { name, rules, publish }: NewPolicy,
): Promise<Verified<Policy>> {
  if (publish) assertMayPublish(caller);
  const definition = await runWithPauses(parsePolicyInSteps(rules), pauser(services.clock));
  const { tenantId, principal } = caller;
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'policies');
    const draft = await insertDraft(
      { notes, principal, now },
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

/**
 * Returns the version of the stored policy: the definition's own version if that is a valid number,
 * otherwise 1.
 */
function firstVersion(version: number): number {
  return Number.isInteger(version) && version >= 1 && version <= 1_000_000_000 ? version : 1;
}

/** Creates a new draft from a published or archived policy, because such a policy cannot change. */
export async function versionPolicy(
  services: Services,
  { tenantId, principal }: Caller,
  id: number,
): Promise<Verified<Policy>> {
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'policies');
    const locked = await lockPolicy(notes, tenantId, id);
    if (claimsOf(locked).lifecycle === 'draft') {
      throw lifecycleInvalid(claimsOf(locked), 'cloned', `PUT /v1/policies/${id} changes it`);
    }
    const source = notes.rows('policy').verify(locked);
    const { name, definitionId, definition, policyHash } = source;
    return insertDraft(
      { notes, principal, now },
      {
        tenantId,
        name,
        definitionId,
        definition,
        policyHash,
        version: await nextVersion(notes, source),
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
  readonly notes: ChangeNotes;
  readonly principal: string;
  readonly now: Date;
}

/**
 * Stores a new draft, if the tenant's plan allows one more. Call it under the lock on `policies`.
 */
export async function insertDraft(
  { notes, principal, now }: Insertion,
  draft: NewDraft,
): Promise<Verified<Policy>> {
  const { tenantId } = draft;
  const policies = notes.rows('policy');
  const present = await policies.count({ tenantId, lifecycle: { not: 'archived' } });
  await assertWithinPlan(notes, tenantId, { feature: 'policies', present });
  const written = { createdBy: principal, createdAt: now, updatedAt: now };
  const row = await policies.create({ ...draft, ...written });
  await recordPolicyEvent(notes, 'policy.created', row, principal);
  return row;
}

/** Returns the highest version of this definition id so far, plus one. */
export async function nextVersion(
  notes: ChangeNotes,
  { tenantId, definitionId }: Pick<Policy, 'tenantId' | 'definitionId'>,
): Promise<number> {
  const [last] = await notes.rows('policy').findClaims(['version'], {
    where: { tenantId, definitionId },
    orderBy: { version: 'desc' },
    take: 1,
  });
  return (last?.version ?? 0) + 1;
}
