import type { JsonObject, JsonValue } from '../../base/json.ts';
import { isJsonObject } from '../../base/json.ts';
import type { Operator } from './definition.ts';

export type Primitive = string | number | boolean | null;

/** The value on one side of a condition; undefined if its path has no value. */
type Side = JsonValue | undefined;

/**
 * Evaluates an operator. `permits` means that the condition belongs to an `allow` or `warn` rule.
 * In such a rule, a missing or incomparable value makes the condition false. In all other rules,
 * such a value makes `!=` and `not_in` true.
 */
export type Relation = (left: Side, right: Side, permits: boolean) => boolean;

/** Every operator except `matches`, which uses a compiled pattern. */
export const relations: Readonly<Record<Exclude<Operator, 'matches'>, Relation>> = {
  '==': (left, right) => left !== undefined && right !== undefined && same(left, right),
  '!=': (left, right, permits) =>
    left === undefined || right === undefined ? !permits : differs(left, right, permits),
  '>': (left, right, permits) => toNumber(left, permits) > toNumber(right, permits),
  '>=': (left, right, permits) => toNumber(left, permits) >= toNumber(right, permits),
  '<': (left, right, permits) => toNumber(left, permits) < toNumber(right, permits),
  '<=': (left, right, permits) => toNumber(left, permits) <= toNumber(right, permits),
  in: (left, right) => left !== undefined && isArray(right) && includes(right, left),
  not_in: notIn,
  contains,
};

export function isPrimitive(value: JsonValue): value is Primitive {
  return typeof value !== 'object' || value === null;
}

/**
 * Tests strict equality, without conversion between types. Objects and arrays are equal if their
 * canonical JSON is equal.
 */
function same(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true;
  if (isPrimitive(one) || isPrimitive(other)) return false;
  if (isArray(one)) {
    return (
      isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => sameSide(item, other[index]))
    );
  }
  return !isArray(other) && sameMembers(one, other);
}

function sameMembers(one: JsonObject, other: JsonObject): boolean {
  const names = presentNames(one);
  return (
    names.length === presentNames(other).length &&
    names.every((name) => Object.hasOwn(other, name) && sameSide(one[name], other[name]))
  );
}

function sameSide(one: Side, other: Side): boolean {
  return one !== undefined && other !== undefined && same(one, other);
}

function presentNames(object: JsonObject): string[] {
  return Object.keys(object).filter((name) => object[name] !== undefined);
}

/**
 * Evaluates `!=` for two present values. The result is false for an object on the left and a
 * primitive on the right. This exception does not apply to an object on the right, because
 * otherwise an agent could send an object as an argument to evade a refusing rule that compares a
 * value with this argument.
 */
function differs(left: JsonValue, right: JsonValue, permits: boolean): boolean {
  if (isPrimitive(left) === isPrimitive(right)) return !same(left, right);
  return isJsonObject(left) ? false : !permits;
}

/**
 * True if `!=` holds between the left side and every element of the right side. A right side that
 * is not a list is incomparable.
 */
function notIn(left: Side, right: Side, permits: boolean): boolean {
  if (left === undefined || right === undefined) return !permits;
  if (!isArray(right)) return isJsonObject(left) ? false : !permits;
  return right.every((item) => differs(left, item, permits));
}

/** True if the left side contains the right side as a substring, or as an element of an array. */
function contains(left: Side, right: Side): boolean {
  if (right === undefined) return false;
  if (typeof left === 'string') return typeof right === 'string' && left.includes(right);
  return isArray(left) && includes(left, right);
}

function includes(list: readonly JsonValue[], value: JsonValue): boolean {
  return isPrimitive(value) ? list.includes(value) : list.some((item) => same(item, value));
}

// Each digit matches in only one way, so long text that is not a number fails in linear time.
const decimal = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;
const exponent = /e/i;

/**
 * Converts a number or decimal text to a number, and any other value to NaN, for which every
 * ordered comparison is false. If `permits`, text with an exponent becomes NaN, because a parser
 * that stops at the `e` reads `900e-1` as 900, not 90.
 */
export function toNumber(side: Side, permits: boolean): number {
  if (typeof side === 'number') return side;
  if (typeof side !== 'string' || !decimal.test(side)) return Number.NaN;
  return permits && exponent.test(side) ? Number.NaN : Number(side);
}

function isArray(value: Side): value is readonly JsonValue[] {
  return Array.isArray(value);
}
