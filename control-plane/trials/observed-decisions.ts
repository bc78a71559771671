import { isJsonObject } from '../../shared/base/json.ts';
import type { ObservedReport } from '../../shared/contract/policies/trials.ts';
import { ruleLabel } from '../../shared/policy/engine/rule.ts';
import type { PolicyDefinition, PolicyRule } from '../../shared/policy/language/definition.ts';
import { ruleEffects, severity } from '../../shared/policy/language/severity.ts';
import type { Decision } from '../../shared/vocabulary/verdict.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { pauser } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { storedDefinition } from '../policies/policy-record.ts';
import { getPolicy } from '../policies/read-policies.ts';
import { decisionPages, type SealedDecision } from './decision-pages.ts';

const budgetMs = 10_000;
const examplesMax = 20;

interface Window {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/**
 * Counts, from the ledger, what one version of a policy in `monitor` or `warn` would have decided.
 */
export async function observedDecisions(
  services: Services,
  caller: Caller,
  { id, from, to }: Window & { readonly id: number },
): Promise<ObservedReport> {
  const { pool, clock } = services;
  const policy = await getPolicy(services, caller, id);
  const window = windowOf(policy, { from, to });
  const tally = new ObservedTally(storedDefinition(policy.definition));
  const report = (complete: boolean) => tally.report(policy.id, window, complete);
  // If the policy was never published, it has observed no decisions.
  if (policy.publishedAt === null && from === undefined && to === undefined) return report(true);
  const endsAt = clock.monotonic() + budgetMs;
  const pause = pauser(clock);
  for await (const { decisions } of decisionPages(pool, caller.tenantId, window)) {
    for (const event of decisions) {
      measureWork(() => tally.add(event));
      await pause();
    }
    if (clock.monotonic() >= endsAt) return report(false);
  }
  return report(true);
}

function windowOf({ publishedAt, archivedAt }: Policy, { from, to }: Window): Window {
  return {
    from: from ?? publishedAt?.toISOString(),
    to: to ?? archivedAt?.toISOString(),
  };
}

/** Counts decisions per rule. The number of rules limits the memory that it needs. */
class ObservedTally {
  readonly #definition: PolicyDefinition;
  readonly #rules: ReadonlyMap<string, PolicyRule>;
  readonly #byDecision = new Map<Decision, number>();
  readonly #byReason = new Map<string, ObservedReport['by_reason'][number]>();
  readonly #byRule = new Map<string, number>();
  readonly #refusals: string[] = [];
  readonly #others: string[] = [];
  #examined = 0;
  #matched = 0;
  #wouldRefuse = 0;

  constructor(definition: PolicyDefinition) {
    this.#definition = definition;
    this.#rules = new Map(definition.rules.map((rule) => [ruleLabel(definition, rule), rule]));
  }

  add(event: SealedDecision): void {
    this.#examined += 1;
    const rules = this.#rulesIn(event);
    const [strictest] = [...rules].sort((one, other) => rank(other) - rank(one));
    if (strictest === undefined) return;
    const decision = decisionOf(strictest);
    const key = JSON.stringify([decision, strictest.reason]);
    this.#matched += 1;
    increase(this.#byDecision, decision);
    for (const { name } of rules) increase(this.#byRule, name);
    const { count = 0 } = this.#byReason.get(key) ?? {};
    this.#byReason.set(key, { decision, reason_code: strictest.reason, count: count + 1 });
    const isRefusal = rank(strictest) > severity('warn') && wasAllowed(event);
    if (isRefusal) this.#wouldRefuse += 1;
    const examples = isRefusal ? this.#refusals : this.#others;
    if (examples.length < examplesMax) examples.push(event.id);
  }

  /**
   * Returns the rules of this policy that matched without deciding. If the policy is in `warn` and
   * turned an allow into a warning, its rules are among the event's matched rules.
   */
  #rulesIn({ decision, data }: SealedDecision): readonly PolicyRule[] {
    const { observed, matched_rules: matched } = data;
    const labels = new Set<unknown>(
      Array.isArray(observed) ? observed.filter(isJsonObject).map(({ rule }) => rule) : [],
    );
    if (this.#definition.mode === 'warn' && decision === 'warn' && Array.isArray(matched)) {
      for (const label of matched) labels.add(label);
    }
    return [...this.#rules].filter(([label]) => labels.has(label)).map(([, rule]) => rule);
  }

  report(policyId: number, { from, to }: Window, complete: boolean): ObservedReport {
    const { id, mode = 'enforce', rules } = this.#definition;
    return {
      policy_id: policyId,
      definition_id: id,
      mode,
      from: from ?? null,
      to: to ?? null,
      examined: this.#examined,
      matched: this.#matched,
      would_refuse: this.#wouldRefuse,
      by_decision: Object.fromEntries(this.#byDecision),
      by_reason: [...this.#byReason.values()].sort((one, other) => other.count - one.count),
      by_rule: rules.flatMap(({ name, decision }) => {
        const count = this.#byRule.get(name);
        return count === undefined ? [] : [{ rule: name, decision, count }];
      }),
      examples: [...this.#refusals, ...this.#others].slice(0, examplesMax),
      complete,
    };
  }
}

function decisionOf({ decision }: PolicyRule): Decision {
  return ruleEffects[decision].decision;
}

function rank(rule: PolicyRule): number {
  return severity(decisionOf(rule));
}

function wasAllowed({ decision, data }: SealedDecision): boolean {
  return decision === 'allow' || decision === 'warn' || data.enforced === false;
}

function increase<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
