import type { JsonValue } from '../json.ts';
import { type ConditionBound, compileCondition, refPath } from './condition.ts';
import type { PolicyContext } from './context.ts';
import type { PolicyCondition, PolicyDefinition, PolicyRule } from './definition.ts';
import { isPrimitive, type Primitive } from './relations.ts';
import { groupConditions } from './rule.ts';
import { compileScope } from './scope.ts';
import { permits } from './severity.ts';

/** One test of a rule as lint reasons about it: what it says about the value at one path. */
export interface Test {
  readonly path: string;
  /** The same text means the same test. */
  readonly text: string;
  /** Whether it stands in a rule that permits: then a missing path fails it. */
  readonly permits: boolean;
  /** Undefined when it compares two paths, of which nothing is known. */
  readonly holdsFor?: ((value: JsonValue) => boolean) | undefined;
  /** It holds for these values and no others. */
  readonly values?: readonly Primitive[] | undefined;
  readonly bound?: ConditionBound | undefined;
  /** It holds unless the value is one of these. */
  readonly excludes?: readonly Primitive[] | undefined;
}

/** Tests that must hold together. A rule is a list of clauses: it matches when one of them does. */
export type Clause = readonly Test[];

/** The clauses of a rule, with `applies_to` of its policy in each. */
export function clausesOf(definition: PolicyDefinition, rule: PolicyRule): readonly Clause[] {
  const scope = scopeTests(definition);
  const rulePermits = permits(rule.decision);
  const { quantifier, conditions } = groupConditions(rule.when);
  const tests = conditions.map((condition) => conditionTest(condition, rulePermits));
  return quantifier === 'all' ? [[...scope, ...tests]] : tests.map((test) => [...scope, test]);
}

export function conditionTest(condition: PolicyCondition, rulePermits: boolean): Test {
  const { path, operator, value } = condition;
  const test = { path, text: JSON.stringify([path, operator, value]), permits: rulePermits };
  if (refPath(value) !== undefined) return test;
  const { holds, keys, bound } = compileCondition({ ...condition, path: 'value' }, rulePermits);
  return {
    ...test,
    holdsFor: (candidate) => holds({ value: candidate }),
    values: isUnreachable(condition, bound) ? [] : keys?.values,
    bound: bound && { ...bound, path },
    excludes: excludedBy(condition),
  };
}

/** An order that no number can satisfy, because the limit is none. */
function isUnreachable({ operator }: PolicyCondition, bound: ConditionBound | undefined): boolean {
  return bound === undefined && ['>', '>=', '<', '<='].includes(operator);
}

function excludedBy({ operator, value }: PolicyCondition): readonly Primitive[] | undefined {
  if (operator === '!=' && isPrimitive(value)) return [value];
  if (operator !== 'not_in' || !Array.isArray(value)) return undefined;
  const listed: readonly JsonValue[] = value;
  return listed.length > 0 && listed.every(isPrimitive) ? listed : undefined;
}

function scopeTests({ applies_to }: PolicyDefinition): Clause {
  const { tools, agents } = applies_to ?? {};
  return [
    ...scopeTest('tool.name', { tools }, (name) => ({ tool: { name } })),
    ...scopeTest('agent.id', { agents }, (id) => ({ agent: { id } })),
  ];
}

function scopeTest(
  path: string,
  applies_to: NonNullable<PolicyDefinition['applies_to']>,
  contextOf: (value: JsonValue) => PolicyContext,
): Clause {
  return compileScope({ applies_to }).map(({ holds, keys }) => ({
    path,
    text: JSON.stringify([path, applies_to]),
    permits: true,
    holdsFor: (value) => holds(contextOf(value)),
    values: keys?.values,
  }));
}
