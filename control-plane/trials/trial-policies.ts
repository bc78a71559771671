import type { JsonObject } from '../../shared/base/json.ts';
import type { Steps } from '../../shared/base/steps.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import type { PublishedPolicy } from '../../shared/policy/language/published-policy.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import type { Services } from '../core/services.ts';
import { type Pause, runWithPauses } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';

export interface Trial {
  /** Definitions to try. Each of them is validated. */
  readonly candidates: readonly JsonObject[];
  /**
   * True: evaluates the candidates together with the published policies, where a candidate replaces
   * the published policy with the same id. False: evaluates the candidates alone.
   */
  readonly beside: boolean;
}

/** Returns the policies that a trial evaluates. Stores nothing. */
export async function trialPolicies(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  { trial: { candidates, beside }, pause }: { readonly trial: Trial; readonly pause: Pause },
): Promise<readonly PublishedPolicy[]> {
  const tried = await parseAll(candidates, pause);
  const published = beside ? await publishedPolicies(services, tenantId, pause) : [];
  const ids = new Set(tried.map(({ definition }) => definition.id));
  const replaced = new Map(published.map((policy) => [policy.definition.id, policy.id]));
  const last = published.at(-1)?.id ?? 0;
  return [
    ...published.filter(({ definition }) => !ids.has(definition.id)),
    ...tried.map((policy, index) => ({
      id: replaced.get(policy.definition.id) ?? last + 1 + index,
      ...policy,
    })),
  ];
}

/** Returns the published policies of a tenant, ordered by id. */
export async function publishedPolicies(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  pause: Pause,
): Promise<readonly PublishedPolicy[]> {
  const rows = await signedRows(services, 'policy').findMany({
    where: { tenantId, lifecycle: 'published' },
    orderBy: { id: 'asc' },
  });
  const published: PublishedPolicy[] = [];
  try {
    for (const { id, policyHash: hash, definition: text } of rows) {
      const definition = await runWithPauses(parsePolicyInSteps(text), pause);
      published.push(assertPublished({ id, hash, definition }));
    }
    return published;
  } catch (cause) {
    throw new GatewayError('policy.load_failed', { cause });
  }
}

/** Throws if a definition does not match its published hash. No decision uses such a definition. */
function assertPublished(policy: PublishedPolicy): PublishedPolicy {
  if (policyHash(policy.definition) === policy.hash) return policy;
  throw new Error(`published policy ${policy.id} does not match its published hash`);
}

async function parseAll(
  candidates: readonly JsonObject[],
  pause: Pause,
): Promise<readonly Omit<PublishedPolicy, 'id'>[]> {
  const parsed: Omit<PublishedPolicy, 'id'>[] = [];
  const ids = new Set<string>();
  for (const [index, candidate] of candidates.entries()) {
    const definition = await runWithPauses(parseAt(candidate, index), pause);
    if (ids.has(definition.id)) {
      throw new GatewayError('policy.invalid', {
        message: `Two of the policies have the id ${JSON.stringify(definition.id)}; only one can be published.`,
      });
    }
    ids.add(definition.id);
    parsed.push({ hash: measureWork(() => policyHash(definition)), definition });
    await pause();
  }
  return parsed;
}

/** Parses one of several policies. Errors name the invalid policy. */
function* parseAt(candidate: JsonObject, index: number): Steps<PolicyDefinition> {
  try {
    return yield* parsePolicyInSteps(candidate);
  } catch (error) {
    if (!(error instanceof GatewayError) || index === 0) throw error;
    throw new GatewayError(error.code, {
      message: `policies[${index}]: ${error.message}`,
      cause: error,
    });
  }
}
