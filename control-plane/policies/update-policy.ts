import type { PolicyLifecycle } from '../../shared/contract/policies/policies.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { assertExpected, type ExpectedPolicy } from './expected-policy.ts';
import { assertMayPublish, lifecycleInvalid, lockPolicy } from './policy-record.ts';
import { publishDraft, recordPolicyEvent } from './publish-policy.ts';

interface PolicyChange {
  readonly name?: string | undefined;
  /** A policy definition, or its JSON text. */
  readonly rules?: unknown;
  readonly lifecycle?: PolicyLifecycle | undefined;
  /** The version that the caller read: the definition's hash, or `If-Match` (RFC 9110, 13.1.1). */
  readonly expected?: ExpectedPolicy | undefined;
}

/**
 * Changes a draft, publishes it, or does both in this order in one transaction. Published and
 * archived policies cannot change.
 */
export async function updatePolicy(
  services: Services,
  caller: Caller,
  { id, change }: { readonly id: number; readonly change: PolicyChange },
): Promise<Verified<Policy>> {
  const { tenantId, principal } = caller;
  if (change.lifecycle === 'published') assertMayPublish(caller);
  const edit = await readEdit(change);
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const draft = notes.rows('policy').verify(await lockPolicy(notes, tenantId, id));
    assertExpected(draft, change.expected);
    if (draft.lifecycle !== 'draft') throw lifecycleInvalid(draft, 'changed');
    if (change.lifecycle === 'archived') throw lifecycleInvalid(draft, 'archived, only deleted');
    const edited =
      edit === undefined ? draft : await applyEdit(notes, { draft, edit, now, principal });
    return change.lifecycle === 'published'
      ? publishDraft(tx, notes, edited, { principal, now })
      : edited;
  });
  return result;
}

interface Edit {
  readonly name?: string;
  readonly definition?: string;
  readonly definitionId?: string;
  readonly policyHash?: string;
}

async function readEdit({ name, rules }: PolicyChange): Promise<Edit | undefined> {
  if (name === undefined && rules === undefined) return undefined;
  const naming = name === undefined ? {} : { name };
  if (rules === undefined) return naming;
  const definition = await runWithPauses(parsePolicyInSteps(rules), pauser());
  return {
    ...naming,
    definition: JSON.stringify(definition),
    definitionId: definition.id,
    policyHash: policyHash(definition),
  };
}

async function applyEdit(
  notes: ChangeNotes,
  {
    draft,
    edit,
    now,
    principal,
  }: {
    readonly draft: Verified<Policy>;
    readonly edit: Edit;
    readonly now: Date;
    readonly principal: string;
  },
): Promise<Verified<Policy>> {
  const changes = { ...edit, version: draft.version + 1, updatedAt: now };
  const edited = await notes.rows('policy').update(draft, changes);
  await recordPolicyEvent(notes, 'policy.updated', edited, principal);
  return edited;
}
