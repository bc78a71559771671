import type { JsonValue } from '../../base/json.ts';
import { groupConditions } from '../engine/rule.ts';
import {
  type ConditionBound,
  compileCondition,
  type Requirement,
  refPath,
} from '../language/condition.ts';
import type { PolicyContext } from '../language/context.ts';
import type {
  Operator,
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
} from '../language/definition.ts';
import { compilePath } from '../language/path.ts';
import { isPrimitive, type Primitive } from '../language/relations.ts';
import { compileScope } from '../language/scope.ts';
import { permits } from '../language/severity.ts';
import { kindsAt, kindsFor } from './value-kinds.ts';

/** One condition, or one list of `applies_to`, in the form that lint analyses. */
export interface Test {
  readonly path: string;
  /** Tests with equal text are the same test. */
  readonly text: string;
  readonly operator: Operator;
  readonly literal: JsonValue;
  /** True if the rule decides `allow` or `warn`. In such a rule, a missing value fails the test. */
  readonly permits: boolean;
  /** The condition, compiled in the same way as for decisions on requests. */
  readonly holds: (context: PolicyContext) => boolean;
  /** Undefined if the test compares two paths. */
  readonly holdsFor?: ((value: JsonValue | undefined) => boolean) | undefined;
  /** The right-hand path of a test that compares two paths. */
  readonly ref?: string | undefined;
  /** The kinds of value that can satisfy the test at its path (see `kinds`). */
  readonly kinds: number;
  /** The test holds for these values and no others. */
  readonly values?: readonly JsonValue[] | undefined;
  readonly bound?: ConditionBound | undefined;
  /** The test holds for every value of `kinds` except these. */
  readonly excludes?: readonly Primitive[] | undefined;
  /** Tool ids and globs; one of them must match. */
  readonly globs?: readonly string[] | undefined;
}

/** Tests that must hold together. A rule is a list of clauses, and matches if one clause holds. */
export type Clause = readonly Test[];

/** The clauses of a rule, each with the `applies_to` of its policy. */
export function clausesOf(definition: PolicyDefinition, rule: PolicyRule): readonly Clause[] {
  const scope = scopeTests(definition);
  const rulePermits = permits(rule.decision);
  const { quantifier, conditions } = groupConditions(rule.when);
  const tests = conditions.map((condition) => conditionTest(condition, rulePermits));
  return quantifier === 'all' ? [[...scope, ...tests]] : tests.map((test) => [...scope, test]);
}

export function conditionTest(condition: PolicyCondition, rulePermits: boolean): Test {
  const { path, operator, value: literal } = condition;
  const ref = refPath(literal);
  const test = {
    path,
    text: ref === undefined ? JSON.stringify([path, operator, literal]) : refText(condition, ref),
    operator,
    literal,
    permits: rulePermits,
    kinds: kindsFor(condition, rulePermits) & kindsAt(path),
  };
  if (ref !== undefined) {
    return { ...test, ref, holds: compileCondition(condition, rulePermits).holds };
  }
  const here = { ...condition, path: 'value' };
  // Compiles patterns on demand, because compiling is expensive and most patterns are never
  // evaluated.
  const { holds, bound } =
    operator === 'matches' ? compileLate(here) : compileCondition(here, rulePermits);
  const holdsFor = (value: JsonValue | undefined) => holds(value === undefined ? {} : { value });
  const read = compilePath(path);
  return {
    ...test,
    holds: (context) => holdsFor(read(context)),
    holdsFor,
    values: isUnreachable(operator, bound) ? [] : valuesOf(condition),
    bound: bound && { ...bound, path },
    excludes: excludedBy(condition),
  };
}

function compileLate(condition: PolicyCondition): Requirement {
  let compiled: Requirement | undefined;
  return {
    holds: (context) => {
      compiled ??= compileCondition(condition, false);
      return compiled.holds(context);
    },
  };
}

const mirrored: Readonly<Partial<Record<Operator, Operator>>> = {
  '==': '==',
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
};

/**
 * Returns the text of a test that compares two paths: the same for `a < $ref b` and `b > $ref a`.
 */
function refText({ path, operator }: PolicyCondition, ref: string): string {
  const mirror = mirrored[operator];
  return mirror !== undefined && ref < path
    ? JSON.stringify([ref, mirror, { $ref: path }])
    : JSON.stringify([path, operator, { $ref: ref }]);
}

function valuesOf({ operator, value }: PolicyCondition): readonly JsonValue[] | undefined {
  if (operator === '==') return [value];
  return operator === 'in' && Array.isArray(value) ? value : undefined;
}

/**
 * True for an ordered comparison (such as `<`) whose limit is not a number, so that no value
 * satisfies it.
 */
function isUnreachable(operator: Operator, bound: ConditionBound | undefined): boolean {
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
  const { tools, agents } = applies_to;
  return compileScope({ applies_to }).map(({ holds, keys }) => ({
    path,
    text: JSON.stringify([path, applies_to]),
    operator: 'in',
    literal: tools ?? agents ?? [],
    permits: true,
    kinds: kindsAt(path),
    holds,
    holdsFor: (value) => holds(value === undefined ? {} : contextOf(value)),
    values: keys?.values,
    globs: tools,
  }));
}
