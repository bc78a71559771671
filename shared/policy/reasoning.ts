import type { JsonValue } from '../json.ts';
import type { Clause, Test } from './clause.ts';
import type { ConditionBound } from './condition.ts';
import type { Primitive } from './relations.ts';

/*
 * What can be said about clauses without running them. Values, sets of values and numeric ranges
 * are reasoned about exactly; patterns, substrings and comparisons of two paths are taken to be
 * possible and to imply nothing but themselves. So "cannot hold" and "implies" are never claimed
 * wrongly, and some cases are missed.
 */

/** False only when no context at all can satisfy the tests together. */
export function isSatisfiable(tests: Clause): boolean {
  for (const group of Map.groupBy(tests, ({ path }) => path).values()) {
    if (!isGroupSatisfiable(group)) return false;
  }
  return true;
}

function isGroupSatisfiable(group: Clause): boolean {
  const values = candidatesOf(group);
  return values === undefined ? !isEmpty(rangeOf(group)) : values.length > 0;
}

/** The only values at this path that satisfy every test; undefined when they cannot be listed. */
function candidatesOf(group: Clause): readonly Primitive[] | undefined {
  const listed = group.find(({ values }) => values !== undefined)?.values;
  return listed?.filter((value) => satisfies(group, value));
}

function satisfies(group: Clause, value: JsonValue): boolean {
  return group.every(({ holdsFor }) => holdsFor === undefined || holdsFor(value));
}

/** True only when every context that satisfies the clause satisfies the test. */
export function implies(clause: Clause, test: Test): boolean {
  const group = clause.filter(({ path }) => path === test.path);
  if (group.some((other) => other.text === test.text && isAtLeastAsStrict(other, test)))
    return true;
  const { holdsFor } = test;
  if (holdsFor === undefined) return false;
  const values = candidatesOf(group);
  if (values !== undefined) return values.every(holdsFor);
  if (test.bound !== undefined) return isWithin(rangeOf(group), test.bound);
  return test.excludes?.every((value) => rulesOut(group, value, test)) ?? false;
}

/** A test that a missing path fails is the stricter of two with the same text. */
function isAtLeastAsStrict(one: Test, other: Test): boolean {
  return one.permits || !other.permits;
}

/** Whether a value at the path can neither be the excluded one, nor be missing where that counts. */
function rulesOut(group: Clause, value: Primitive, test: Test): boolean {
  const hasNumber = group.some(({ bound }) => bound !== undefined);
  if (hasNumber) return !satisfies(group, value);
  return group.some(
    (other) => isAtLeastAsStrict(other, test) && (other.excludes?.includes(value) ?? false),
  );
}

interface Range {
  readonly low: number;
  readonly lowInclusive: boolean;
  readonly high: number;
  readonly highInclusive: boolean;
}

const everyNumber: Range = {
  low: -Infinity,
  lowInclusive: true,
  high: Infinity,
  highInclusive: true,
};

function rangeOf(group: Clause): Range {
  let range = everyNumber;
  for (const { bound } of group) if (bound !== undefined) range = narrow(range, bound);
  return range;
}

function narrow(range: Range, { operator, limit }: ConditionBound): Range {
  const inclusive = operator === '>=' || operator === '<=';
  if (operator === '>' || operator === '>=') {
    if (limit < range.low || (limit === range.low && inclusive)) return range;
    return { ...range, low: limit, lowInclusive: inclusive };
  }
  if (limit > range.high || (limit === range.high && inclusive)) return range;
  return { ...range, high: limit, highInclusive: inclusive };
}

function isEmpty({ low, lowInclusive, high, highInclusive }: Range): boolean {
  return low > high || (low === high && !(lowInclusive && highInclusive));
}

/** Every number of the range, of which there must be a bound at all, satisfies the bound. */
function isWithin(range: Range, bound: ConditionBound): boolean {
  if (range === everyNumber) return false;
  const both = narrow(range, bound);
  return (
    both.low === range.low &&
    both.lowInclusive === range.lowInclusive &&
    both.high === range.high &&
    both.highInclusive === range.highInclusive
  );
}
