import { finish, type Steps } from '../../base/steps.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { policyLimits } from '../language/definition-limits.ts';
import { policyHash, policySetHash } from '../language/hash.ts';
import type { PublishedPolicy } from '../language/published-policy.ts';
import { parsePolicyInSteps } from '../language/validate.ts';
import { combine } from './combine-rules.ts';
import type { PolicySet } from './policy-set.ts';
import { compileRules } from './rule.ts';
import type { PlacedRule } from './rule-list.ts';
import { type StrictScope, strictCoverage, strictScope } from './strict-scope.ts';
import { ToolIndex } from './tool-index.ts';
import { indexUsage, type UsageIndex } from './usage-index.ts';

/**
 * Compiles the published policies of one tenant again after each change, and reuses all unchanged
 * parts. Unchanged policies are recognised by their hash, so a definition that does not match its
 * published hash is refused.
 */
export class PolicyCompiler {
  #held: ReadonlyMap<string, CompiledPolicy> = new Map();
  #index = new ToolIndex();

  /** Throws `policy.invalid` if any policy is invalid; the previously compiled set stays usable. */
  compile(policies: readonly PublishedPolicy[]): PolicySet {
    return finish(this.compileInSteps(policies));
  }

  /**
   * Like `compile`, but with one rule per step. Do not start a second set before the first one is
   * finished.
   */
  *compileInSteps(policies: readonly PublishedPolicy[]): Steps<PolicySet> {
    const before = this.#held;
    const held = new Map<string, CompiledPolicy>();
    for (const policy of policies) {
      const key = `${policy.id} ${policy.hash}`;
      held.set(key, before.get(key) ?? (yield* compilePolicy(policy)));
      yield;
    }
    const removed = [...before].flatMap(([key, { rules }]) => (held.has(key) ? [] : rules));
    const added = [...held].flatMap(([key, { rules }]) => (before.has(key) ? [] : rules));
    this.#held = held;
    this.#index = this.#index.change(removed, added);
    const compiled = [...held.values()];
    const usage = indexUsage(
      compiled.flatMap(({ rules }) => rules.flatMap(({ rule }) => rule.usage ?? [])),
    );
    const strict = strictScope(compiled.flatMap(({ covers }) => covers ?? []));
    return createPolicySet({ index: this.#index, usage, strict }, policies);
  }
}

/** Compiles a set once. Use a `PolicyCompiler` for a set that changes. */
export function compilePolicies(policies: readonly PublishedPolicy[]): PolicySet {
  return new PolicyCompiler().compile(policies);
}

/**
 * Like `compilePolicies`, in short steps, so that a server can handle other requests in between.
 */
export function compileInSteps(policies: readonly PublishedPolicy[]): Steps<PolicySet> {
  return new PolicyCompiler().compileInSteps(policies);
}

interface CompiledPolicy {
  readonly rules: readonly PlacedRule[];
  /** Present for a policy in `strict`. */
  readonly covers: StrictScope['covers'] | undefined;
}

function* compilePolicy({ id, hash, definition }: PublishedPolicy): Steps<CompiledPolicy> {
  const checked = yield* parsePolicyInSteps(definition);
  if (policyHash(checked) !== hash) {
    throw new GatewayError('policy.invalid', {
      message: `policy ${id}: the definition does not match the published hash ${hash}`,
    });
  }
  const rules: PlacedRule[] = [];
  for (const rule of compileRules({ definition: checked, hash })) {
    rules.push({ rule, rank: id * policyLimits.rules + rules.length });
    yield;
  }
  return { rules, covers: strictCoverage(checked) };
}

function inOrder(one: PlacedRule, other: PlacedRule): number {
  return one.rank - other.rank || (one.rule.policyHash < other.rule.policyHash ? -1 : 1);
}

/** Compares two policies for the order in a set: by id, then by hash. */
export function byPolicyId(one: PublishedPolicy, other: PublishedPolicy): number {
  return one.id - other.id || (one.hash < other.hash ? -1 : 1);
}

function createPolicySet(
  {
    index,
    ...parts
  }: {
    readonly index: ToolIndex;
    readonly usage: UsageIndex;
    readonly strict: StrictScope;
  },
  policies: readonly PublishedPolicy[],
): PolicySet {
  const nothing = combine([]);
  return {
    hash: policySetHash(policies.map(({ hash }) => hash)),
    size: policies.length,
    ...parts,
    evaluate(context) {
      const found: PlacedRule[] = [];
      index.collect(context, found);
      const [first, second] = found;
      if (first === undefined) return nothing;
      if (second === undefined) return first.rule.alone;
      found.sort(inOrder);
      return combine(found.map(({ rule }) => rule));
    },
  };
}
