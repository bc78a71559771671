import type { Steps } from '../../shared/base/steps.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { compileInSteps } from '../../shared/policy/engine/compile.ts';
import type { PolicySet } from '../../shared/policy/engine/policy-set.ts';
import type { PublishedPolicy } from '../../shared/policy/language/published-policy.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import type { Services } from '../core/services.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import type { Policy } from '../platform/store/generated/client.ts';

/** Which policies are published: row id and hash, in the order of ids. */
type PublishedRefs = readonly (readonly [id: number, hash: string])[];

/** What tells whether a policy's row is ours. */
export const signedPolicy = {
  ...{ tenantId: true, id: true, definitionId: true, version: true },
  ...{ lifecycle: true, policyHash: true, mac: true },
} as const;

interface Compiled {
  readonly key: string;
  readonly policies: Promise<PolicySet>;
}

// Kept with the database client, so that two programs in one process never share a set.
const compiledSets = new WeakMap<Services['db'], Map<string, Compiled>>();

/**
 * The compiled set of exactly these published policies. Compiled once per tenant and set: the
 * refs are read with every decision, so a set that is not current is never used.
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
  // What failed once is tried again, never remembered.
  policies.catch(() => {
    if (sets.get(tenantId) === entry) sets.delete(tenantId);
  });
  return policies;
}

/** The published policies of a tenant right now, compiled. */
export async function loadPublishedPolicies(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<PolicySet> {
  const rows = await services.db.policy.findMany({
    where: { tenantId, lifecycle: 'published' },
    select: { id: true, policyHash: true },
    orderBy: { id: 'asc' },
  });
  const refs: PublishedRefs = rows.map((row) => [row.id, row.policyHash]);
  return compiledPolicies(services, tenantId, refs);
}

async function compile(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  refs: PublishedRefs,
): Promise<PolicySet> {
  try {
    const rows = await db.policy.findMany({
      where: { tenantId, id: { in: refs.map(([id]) => id) } },
      select: { ...signedPolicy, definition: true },
    });
    // None may be left out: it may be the one that denies.
    for (const row of rows) guard.assert('policy', row);
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
 * What was read first must be what was found to be ours: rows can be put back between two
 * statements, and a set is kept for as long as its references are read.
 */
function assertSame(
  refs: PublishedRefs,
  rows: readonly Pick<Policy, 'id' | 'lifecycle' | 'policyHash'>[],
): void {
  const published = new Map(
    rows.map((row) => [row.id, row.lifecycle === 'published' ? row.policyHash : undefined]),
  );
  const changed = refs.find(([id, hash]) => published.get(id) !== hash);
  if (changed !== undefined) throw new Error(`policy ${changed[0]} changed while it was read`);
}

/** The compiler refuses a definition that is not the one its hash was published for. */
function* readPublished(
  id: number,
  hash: string,
  text: string | undefined,
): Steps<PublishedPolicy> {
  if (text === undefined) throw new Error(`published policy ${id} is gone`);
  return { id, hash, definition: yield* parsePolicyInSteps(text) };
}
