import { GatewayError } from '../errors.ts';
import type { PublishedPolicy } from '../sync/sections.ts';
import { policyHash, policySetHash } from './hash.ts';
import { combine } from './outcome.ts';
import type { PolicySet } from './policy-set.ts';
import { type CompiledRule, compileRules } from './rule.ts';
import { indexRules } from './rule-index.ts';
import type { PlacedRule } from './rule-list.ts';
import { parsePolicy } from './validate.ts';

/**
 * Compiles the published policies of one tenant, again whenever they change: a policy that was
 * there before is not compiled a second time. What a policy says is taken from its hash alone,
 * so a definition that does not have the hash it is published under is refused.
 */
export class PolicyCompiler {
  #compiled = new Map<string, readonly CompiledRule[]>();

  /** Throws `policy.invalid` when any policy is; the set compiled before stays usable. */
  compile(policies: readonly PublishedPolicy[]): PolicySet {
    const compiled = new Map<string, readonly CompiledRule[]>();
    for (const policy of policies) {
      compiled.set(policy.hash, this.#compiled.get(policy.hash) ?? compilePolicy(policy));
    }
    this.#compiled = compiled;
    const inOrder = [...policies].sort(byId).flatMap(({ hash }) => compiled.get(hash) ?? []);
    return createPolicySet(inOrder, policies);
  }
}

/** Compiles a set once; a `PolicyCompiler` for one that changes. */
export function compilePolicies(policies: readonly PublishedPolicy[]): PolicySet {
  return new PolicyCompiler().compile(policies);
}

function compilePolicy({ id, hash, definition }: PublishedPolicy): readonly CompiledRule[] {
  const checked = parsePolicy(definition);
  if (policyHash(checked) !== hash) {
    throw new GatewayError('policy.invalid', {
      message: `policy ${id}: its definition does not have the hash ${hash}`,
    });
  }
  return compileRules({ definition: checked, hash });
}

function byId(one: PublishedPolicy, other: PublishedPolicy): number {
  return one.id - other.id || (one.hash < other.hash ? -1 : 1);
}

function createPolicySet(
  rules: readonly CompiledRule[],
  policies: readonly PublishedPolicy[],
): PolicySet {
  const collect = indexRules(rules.map((rule, rank) => ({ rule, rank })));
  const nothing = combine([]);
  return {
    hash: policySetHash(policies.map(({ hash }) => hash)),
    size: policies.length,
    evaluate(context) {
      const found: PlacedRule[] = [];
      collect(context, found);
      const [first, second] = found;
      if (first === undefined) return nothing;
      if (second === undefined) return first.rule.alone;
      found.sort((one, other) => one.rank - other.rank);
      return combine(found.map(({ rule }) => rule));
    },
  };
}
