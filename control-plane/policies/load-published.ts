import type { Steps } from '../../shared/base/steps.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { compileInSteps } from '../../shared/policy/engine/compile.ts';
import type { PolicySet } from '../../shared/policy/engine/policy-set.ts';
import type { PublishedPolicy } from '../../shared/policy/language/published-policy.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import type { Services } from '../core/services.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';

/** Row id and hash of each published policy, ordered by id. */
type PublishedRefs = readonly (readonly [id: number, hash: string])[];

interface Compiled {
  readonly key: string;
  readonly policies: Promise<PolicySet>;
}

// Compiled sets, cached for each database client, so that two programs in one process do not share
// a set.
const compiledSets = new WeakMap<Services['db'], Map<string, Compiled>>();

/**
 * Compiles the referenced policies, once per tenant and set. Every decision reads the references
 * again, so a stale set is never used.
 */
export function compiledPolicies(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  refs: PublishedRefs,
): Promise<PolicySet> {
  const sets = compiledSets.get(services.db) ?? new Map<string, Compiled>();
  compiledSets.set(services.db, sets);
  const key = JSON.stringify(refs);
  const known = sets.get(tenantId);
  if (known?.key === key) return known.policies;
  const policies = compile(services, tenantId, refs);
  const entry = { key, policies };
  sets.set(tenantId, entry);
  // A failed compilation is not cached, so that the next call retries.
  policies.catch(() => {
    if (sets.get(tenantId) === entry) sets.delete(tenantId);
  });
  return policies;
}

/** Returns the compiled set of a tenant's currently published policies. */
export async function loadPublishedPolicies(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<PolicySet> {
  // Reads only the references. Their rows are verified when the policies are compiled.
  const policies = claimedRows(services.db, 'policy');
  const rows = await policies.findClaims(['id', 'policyHash'], {
    where: { tenantId, lifecycle: 'published' },
    orderBy: { id: 'asc' },
  });
  const refs: PublishedRefs = rows.map((row) => [row.id, row.policyHash]);
  return compiledPolicies(services, tenantId, refs);
}

async function compile(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  refs: PublishedRefs,
): Promise<PolicySet> {
  try {
    // If one row is forged, the whole set fails. If the row were left out, a policy that denies
    // could be missing.
    const rows = await signedRows(services, 'policy').findMany({
      where: { tenantId, id: { in: refs.map(([id]) => id) } },
    });
    assertSame(refs, rows);
    const definitions = new Map(rows.map((row) => [row.id, row.definition]));
    const pause = pauser();
    const policies: PublishedPolicy[] = [];
    for (const [id, hash] of refs) {
      policies.push(await runWithPauses(readPublished(id, hash, definitions.get(id)), pause));
    }
    return await runWithPauses(compileInSteps(policies), pause);
  } catch (cause) {
    if (cause instanceof GatewayError && cause.code === 'integrity.forged_row') throw cause;
    throw new GatewayError('policy.load_failed', { cause });
  }
}

/**
 * Throws if a verified row differs from its reference. Rows may change between two statements, but
 * the compiled set is cached under the references.
 */
function assertSame(refs: PublishedRefs, rows: readonly Verified<Policy>[]): void {
  const published = new Map(
    rows.map((row) => [row.id, row.lifecycle === 'published' ? row.policyHash : undefined]),
  );
  const changed = refs.find(([id, hash]) => published.get(id) !== hash);
  if (changed !== undefined) throw new Error(`policy ${changed[0]} changed while it was read`);
}

/**
 * Parses a published policy. The compiler later rejects a definition that does not match its
 * published hash.
 */
function* readPublished(
  id: number,
  hash: string,
  text: string | undefined,
): Steps<PublishedPolicy> {
  if (text === undefined) throw new Error(`published policy ${id} no longer exists`);
  return { id, hash, definition: yield* parsePolicyInSteps(text) };
}
