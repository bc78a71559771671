import type { PolicyLifecycle } from '../../shared/contract/policies/policies.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { lintInSteps } from '../../shared/policy/lint/lint.ts';
import { countFindings, type LintFinding } from '../../shared/policy/lint/lint-finding.ts';
import { toolsNamedBy } from '../../shared/policy/lint/named-tools.ts';
import { boundedWarnings } from '../core/bounded-warnings.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type Pause, pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';
import { storedDefinitionInSteps } from './policy-record.ts';

interface LintReport {
  readonly findings: readonly LintFinding[];
  readonly counts: ReturnType<typeof countFindings>;
}

/**
 * Lints stored policies: all policies in one lifecycle state, or the set that would result if every
 * draft were published.
 */
export async function lintStored(
  services: Services,
  { tenantId }: Caller,
  lifecycle: PolicyLifecycle | undefined,
): Promise<LintReport> {
  const pause = pauser(services.clock);
  const read = (one: PolicyLifecycle) =>
    definitionsOf(services, { tenantId, lifecycle: one, pause });
  if (lifecycle !== undefined) return lint(await read(lifecycle), pause);
  const drafts = await read('draft');
  return lint(overlay(await read('published'), drafts), pause);
}

/** Lints policies that are not stored. */
export async function lintCandidates(
  services: Services,
  { tenantId }: Caller,
  input: { readonly policies: readonly unknown[]; readonly with_published: boolean },
): Promise<LintReport> {
  const candidates: PolicyDefinition[] = [];
  const pause = pauser(services.clock);
  for (const policy of input.policies) {
    candidates.push(await runWithPauses(parsePolicyInSteps(policy), pause));
  }
  if (!input.with_published) return lint(candidates, pause);
  const published = await definitionsOf(services, { tenantId, lifecycle: 'published', pause });
  return lint(overlay(published, candidates), pause);
}

async function definitionsOf(
  { db }: Services,
  {
    tenantId,
    lifecycle,
    pause,
  }: { readonly tenantId: string; readonly lifecycle: PolicyLifecycle; readonly pause: Pause },
): Promise<readonly PolicyDefinition[]> {
  const rows = await claimedRows(db, 'policy').findClaims(['definition'], {
    where: { tenantId, lifecycle },
    orderBy: { id: 'asc' },
  });
  const definitions: PolicyDefinition[] = [];
  for (const { definition } of rows) {
    definitions.push(await runWithPauses(storedDefinitionInSteps(definition), pause));
  }
  return definitions;
}

/**
 * Returns the set that would result if the candidates were published: a candidate replaces the
 * published policy with the same id.
 */
function overlay(
  published: readonly PolicyDefinition[],
  candidates: readonly PolicyDefinition[],
): readonly PolicyDefinition[] {
  const replaced = new Set(candidates.map(({ id }) => id));
  return [...published.filter(({ id }) => !replaced.has(id)), ...candidates];
}

async function lint(definitions: readonly PolicyDefinition[], pause: Pause): Promise<LintReport> {
  const findings = await runWithPauses(lintInSteps(definitions), pause);
  return { findings, counts: countFindings(findings) };
}

const textMax = 1_000;

/**
 * Returns the probable mistakes in a stored policy: lint errors and warnings about this policy
 * alone, and tool names that match no known tool. A policy with mistakes can still be stored.
 */
export async function policyWarnings(
  services: Services,
  { tenantId, definition }: Pick<Policy, 'tenantId' | 'definition'>,
): Promise<{ readonly warnings?: string[] }> {
  const pause = pauser(services.clock);
  const parsed = await runWithPauses(storedDefinitionInSteps(definition), pause);
  const findings = await runWithPauses(lintInSteps([parsed]), pause);
  const linted = findings
    .filter(({ severity }) => severity !== 'info')
    .map(({ path, kind, message, fix }) =>
      `${path}: ${message} ${fix} (${kind})`.slice(0, textMax),
    );
  const { warnings = [] } = await warnUnknownTools(services, tenantId, toolsNamedBy(parsed));
  return boundedWarnings([...linted, ...warnings]);
}
