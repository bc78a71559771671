import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { inTurns, pauser } from '../platform/scheduling/pauser.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { insertDraft } from './insert-draft.ts';
import { assertMayPublish } from './policy-record.ts';
import { publishDraft } from './publish-policy.ts';

interface NewPolicy {
  readonly name: string;
  /** A definition, or its JSON text. */
  readonly rules: unknown;
  readonly publish: boolean;
}

/** Stores a policy as a draft, or published at once. Nothing invalid and nothing half is stored. */
export async function createPolicy(
  services: Services,
  caller: Caller,
  { name, rules, publish }: NewPolicy,
): Promise<Policy> {
  if (publish) assertMayPublish(caller);
  const definition = await inTurns(parsePolicyInSteps(rules), pauser(services.clock));
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

/** The stored version starts at the definition's own, as far as that counts versions. */
function firstVersion(version: number): number {
  return Number.isInteger(version) && version >= 1 && version <= 1_000_000_000 ? version : 1;
}
