import type { JsonObject, JsonValue } from '../../base/json.ts';
import { isJsonObject } from '../../base/json.ts';
import type { Operator } from './definition.ts';

export type Primitive = string | number | boolean | null;

/** What one side of a condition holds; undefined when its path leads nowhere. */
type Side = JsonValue | undefined;

/**
 * Whether an operator holds between two sides. `permits` says that the condition stands in an
 * `allow` or `warn` rule: there, what cannot be read or compared makes it false; in every other
 * rule it makes `!=` and `not_in` true.
 */
export type Relation = (left: Side, right: Side, permits: boolean) => boolean;

/** Every operator but `matches`, which needs its pattern compiled. */
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
 * Strict equality: no conversion between types. Objects and arrays are equal when their
 * canonical JSON is the same.
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
 * `!=` of two values that are there. A path that points at an object never matches a primitive
 * (contract 2.4); the exception is for that side alone, else an agent could silence a refusal
 * that compares something with its arguments by sending an object.
 */
function differs(left: JsonValue, right: JsonValue, permits: boolean): boolean {
  if (isPrimitive(left) === isPrimitive(right)) return !same(left, right);
  return isJsonObject(left) ? false : !permits;
}

/** `!=` against every element. A right side that is no list cannot be compared. */
function notIn(left: Side, right: Side, permits: boolean): boolean {
  if (left === undefined || right === undefined) return !permits;
  if (!isArray(right)) return isJsonObject(left) ? false : !permits;
  return right.every((item) => differs(left, item, permits));
}

/** A substring, or an element of an array. */
function contains(left: Side, right: Side): boolean {
  if (right === undefined) return false;
  if (typeof left === 'string') return typeof right === 'string' && left.includes(right);
  return isArray(left) && includes(left, right);
}

function includes(list: readonly JsonValue[], value: JsonValue): boolean {
  return isPrimitive(value) ? list.includes(value) : list.some((item) => same(item, value));
}

// Each digit can be read in one way only, so a long text that is no number fails in linear time.
const decimal = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*$/i;
const exponent = /e/i;

/**
 * A number, or decimal text as a number; NaN, which no order holds for, for anything else. Text
 * with an exponent permits nothing: `900e-1` is 90 here, and 900 to a reader that stops at the `e`.
 */
export function toNumber(side: Side, permits: boolean): number {
  if (typeof side === 'number') return side;
  if (typeof side !== 'string' || !decimal.test(side)) return Number.NaN;
  return permits && exponent.test(side) ? Number.NaN : Number(side);
}

function isArray(value: Side): value is readonly JsonValue[] {
  return Array.isArray(value);
}
