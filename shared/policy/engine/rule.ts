import {
  type CompiledCondition,
  type ConditionKeys,
  compileCondition,
  type Requirement,
} from '../language/condition.ts';
import type {
  ConditionGroup,
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
} from '../language/definition.ts';
import type { PublishedPolicy } from '../language/published-policy.ts';
import { compileScope } from '../language/scope.ts';
import { permits } from '../language/severity.ts';
import { combine } from './combine-rules.ts';
import type { PolicyOutcome } from './policy-set.ts';
import type { RuleSource } from './rule-source.ts';
import { type UsageReading, usageReading } from './usage-reading.ts';

/** A compiled rule; it matches if all its requirements hold. */
export interface CompiledRule extends RuleSource {
  readonly requirements: readonly Requirement[];
  /**
   * The outcome if no other rule matches, computed in advance because this is the most common case.
   */
  readonly alone: PolicyOutcome;
  /** Present if the rule refers to past usage. */
  readonly usage?: UsageReading | undefined;
}

/** Compiles the rules of a valid policy on demand. */
export function* compileRules({
  definition,
  hash,
}: Pick<PublishedPolicy, 'definition' | 'hash'>): Generator<CompiledRule> {
  const scope = compileScope(definition);
  for (const rule of definition.rules) {
    const source: RuleSource = {
      label: ruleLabel(definition, rule),
      rule,
      policyMode: definition.mode ?? 'enforce',
      policyHash: hash,
    };
    yield {
      ...source,
      requirements: [...scope, ...compileGroup(rule.when, permits(rule.decision))],
      alone: combine([source]),
      usage: usageReading(definition, rule),
    };
  }
}

export function ruleLabel(definition: PolicyDefinition, rule: PolicyRule): string {
  return `${definition.id}/${rule.name}`;
}

/** The conditions of a group, and how many of them must hold. */
export function groupConditions(group: ConditionGroup): {
  readonly quantifier: 'all' | 'any';
  readonly conditions: readonly PolicyCondition[];
} {
  return 'all' in group
    ? { quantifier: 'all', conditions: group.all }
    : { quantifier: 'any', conditions: group.any };
}

function compileGroup(group: ConditionGroup, rulePermits: boolean): readonly Requirement[] {
  const { quantifier, conditions } = groupConditions(group);
  const compiled = conditions.map((condition) => compileCondition(condition, rulePermits));
  return quantifier === 'all' || compiled.length === 1 ? compiled : [anyOf(compiled)];
}

function anyOf(conditions: readonly CompiledCondition[]): Requirement {
  return {
    holds: (context) => {
      for (const condition of conditions) if (condition.holds(context)) return true;
      return false;
    },
    keys: unionOf(conditions),
  };
}

/**
 * Returns the values of all alternatives as one list, if the alternatives test the same path;
 * otherwise undefined.
 */
function unionOf(conditions: readonly CompiledCondition[]): ConditionKeys | undefined {
  const path = conditions[0]?.keys?.path;
  if (path === undefined) return undefined;
  const values = new Set<ConditionKeys['values'][number]>();
  for (const { keys } of conditions) {
    if (keys?.path !== path) return undefined;
    for (const value of keys.values) values.add(value);
  }
  return { path, values: [...values] };
}
