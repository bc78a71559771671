import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { PolicyContext } from './context.ts';
import type { PolicyCondition } from './definition.ts';
import { compilePath, type ReadPath } from './path.ts';
import { compilePattern } from './pattern.ts';
import { isPrimitive, type Primitive, type Relation, relations, toNumber } from './relations.ts';

/** A requirement of a rule; the rule matches if all its requirements hold. */
export interface Requirement {
  readonly holds: (context: PolicyContext) => boolean;
  /** Present if `holds` is equivalent to: the value at `path` is one of `values`. */
  readonly keys?: ConditionKeys | undefined;
  /** Present if `holds` is equivalent to a comparison of the number at `path` with `limit`. */
  readonly bound?: ConditionBound | undefined;
}

export interface ConditionBound {
  readonly path: string;
  readonly operator: '>' | '>=' | '<' | '<=';
  readonly limit: number;
  /**
   * True if the rule decides `allow` or `warn`. In such a rule, text with an exponent does not
   * count as a number.
   */
  readonly permits: boolean;
}

/** A compiled condition. Only `holds` determines whether the condition is true. */
export interface CompiledCondition extends Requirement {
  readonly actual: ReadPath;
  /** The literal, or the value at the `$ref` path. */
  readonly expected: ReadPath;
}

export interface ConditionKeys {
  readonly path: string;
  readonly values: readonly Primitive[];
}

/**
 * Compiles one condition. `permits` is true for rules that decide `allow` or `warn`. In such a
 * rule, a missing or incomparable value never makes a condition true.
 */
export function compileCondition(condition: PolicyCondition, permits: boolean): CompiledCondition {
  const { path, value } = condition;
  const actual = compilePath(path);
  const ref = refPath(value);
  const expected = ref === undefined ? () => value : compilePath(ref);
  if (condition.operator === 'matches') {
    return { holds: searches(actual, value, permits), actual, expected };
  }
  const relation = relations[condition.operator];
  if (ref !== undefined) {
    const holds = (context: PolicyContext) => relation(actual(context), expected(context), permits);
    return { holds, actual, expected };
  }
  const holds =
    memberTest(condition, actual) ?? literalTest(relation, actual, literalOf(condition), permits);
  return { holds, actual, expected, keys: keysOf(condition), bound: boundOf(condition, permits) };
}

/** The path of a `{ "$ref": path }`; undefined for a literal. */
export function refPath(value: JsonValue): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const path = value.$ref;
  return typeof path === 'string' ? path : undefined;
}

/**
 * Compiles a search for a pattern. Text that is too long to search never matches in a rule that
 * permits, and always matches in a rule that refuses.
 */
function searches(
  actual: ReadPath,
  pattern: JsonValue,
  permits: boolean,
): (context: PolicyContext) => boolean {
  const compiled = compilePattern(String(pattern));
  return (context) => {
    const text = actual(context);
    return typeof text === 'string' && (compiled.search(text) ?? !permits);
  };
}

function literalTest(
  relation: Relation,
  actual: ReadPath,
  literal: JsonValue,
  permits: boolean,
): (context: PolicyContext) => boolean {
  return (context) => relation(actual(context), literal, permits);
}

/**
 * Returns a constant-time test for `in` with a list of primitives; undefined for other conditions.
 */
function memberTest(
  { operator, value }: PolicyCondition,
  actual: ReadPath,
): ((context: PolicyContext) => boolean) | undefined {
  if (operator !== 'in' || !isPrimitiveList(value)) return undefined;
  const members: ReadonlySet<JsonValue | undefined> = new Set(value);
  return (context) => members.has(actual(context));
}

function keysOf({ path, operator, value }: PolicyCondition): ConditionKeys | undefined {
  if (operator === '==' && isPrimitive(value)) return { path, values: [value] };
  if (operator === 'in' && isPrimitiveList(value)) return { path, values: [...new Set(value)] };
  return undefined;
}

function boundOf(
  { path, operator, value }: PolicyCondition,
  permits: boolean,
): ConditionBound | undefined {
  if (!isOrder(operator)) return undefined;
  const limit = toNumber(value, false);
  return Number.isNaN(limit) ? undefined : { path, operator, limit, permits };
}

/**
 * Converts a limit given as text to a number, even with an exponent, because the policy's author
 * wrote it, not an agent.
 */
function literalOf({ operator, value }: PolicyCondition): JsonValue {
  return isOrder(operator) ? toNumber(value, false) : value;
}

function isOrder(operator: string): operator is ConditionBound['operator'] {
  return operator === '>' || operator === '>=' || operator === '<' || operator === '<=';
}

function isPrimitiveList(value: JsonValue): value is readonly Primitive[] {
  return Array.isArray(value) && value.every(isPrimitive);
}
