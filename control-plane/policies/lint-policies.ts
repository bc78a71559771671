import { setImmediate } from 'node:timers/promises';
import type { PolicyLifecycle } from '../../shared/contract/policies.ts';
import type { PolicyDefinition } from '../../shared/policy/definition.ts';
import { lintInSteps } from '../../shared/policy/lint.ts';
import { countFindings, type LintFinding } from '../../shared/policy/lint-finding.ts';
import { parsePolicy } from '../../shared/policy/validate.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';

interface LintReport {
  readonly findings: readonly LintFinding[];
  readonly counts: ReturnType<typeof countFindings>;
}

/** How long a lint may hold up the others whom this process serves. */
const sliceMs = 10;

/** Lints stored policies: of one lifecycle, or the drafts over the published ones. */
export async function lintStored(
  services: Services,
  { tenantId }: Caller,
  lifecycle: PolicyLifecycle | undefined,
): Promise<LintReport> {
  if (lifecycle !== undefined) return lint(await definitionsOf(services, tenantId, lifecycle));
  const drafts = await definitionsOf(services, tenantId, 'draft');
  return lint(over(await definitionsOf(services, tenantId, 'published'), drafts));
}

/** Lints policies that are not stored. */
export async function lintCandidates(
  services: Services,
  { tenantId }: Caller,
  input: { readonly policies: readonly unknown[]; readonly with_published: boolean },
): Promise<LintReport> {
  const candidates: PolicyDefinition[] = [];
  const pause = pauser();
  for (const policy of input.policies) {
    candidates.push(parsePolicy(policy));
    await pause();
  }
  if (!input.with_published) return lint(candidates);
  return lint(over(await definitionsOf(services, tenantId, 'published'), candidates));
}

async function definitionsOf(
  { db }: Services,
  tenantId: string,
  lifecycle: PolicyLifecycle,
): Promise<readonly PolicyDefinition[]> {
  const rows = await db.policy.findMany({
    where: { tenantId, lifecycle },
    select: { definition: true },
    orderBy: { id: 'asc' },
  });
  return rows.map(({ definition }) => JSON.parse(definition) as PolicyDefinition);
}

/** Publishing a candidate archives the published policy with its id. */
function over(
  published: readonly PolicyDefinition[],
  candidates: readonly PolicyDefinition[],
): readonly PolicyDefinition[] {
  const replaced = new Set(candidates.map(({ id }) => id));
  return [...published.filter(({ id }) => !replaced.has(id)), ...candidates];
}

async function lint(definitions: readonly PolicyDefinition[]): Promise<LintReport> {
  const steps = lintInSteps(definitions);
  const pause = pauser();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return { findings: value, counts: countFindings(value) };
    await pause();
  }
}

/** Lets the others have their turn, each time a slice is used up. */
function pauser(): () => Promise<void> {
  let until = performance.now() + sliceMs;
  return async () => {
    if (performance.now() < until) return;
    await setImmediate();
    until = performance.now() + sliceMs;
  };
}
