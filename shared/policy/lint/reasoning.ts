import type { JsonValue } from '../../base/json.ts';
import { everyGlobIsCovered } from '../../glob/glob.ts';
import { fieldAt } from '../language/context-fields.ts';
import { toNumber } from '../language/relations.ts';
import type { Clause, Test } from './clause.ts';
import { everyNumber, isEmpty, isWithin, type NumberRange, rangeOf } from './number-range.ts';
import { anyKind, kindOf, numeric } from './value-kinds.ts';

/*
 * Static proofs about clauses. They use values, sets, ranges, kinds of value and comparisons of two
 * paths. `isImpossible` and `implies` are true only if proved. An example (`find-example.ts`)
 * proves that clauses can hold together. All other cases stay undecided.
 */

/** The tests on one value: on one path, or on paths that must be equal. */
export interface Group {
  readonly paths: readonly string[];
  readonly tests: Clause;
}

/** True only if no context satisfies all tests. */
export function isImpossible(tests: Clause): boolean {
  if (!hasRef(tests)) {
    for (const group of byPath(tests).values()) if (isGroupImpossible(group)) return true;
    return false;
  }
  const groups = groupsOf(tests);
  const refs = tests.filter(({ ref }) => ref !== undefined);
  return groups.some((group) => isGroupImpossible(group.tests)) || orderFails(refs, groups);
}

/**
 * Like `isImpossible`, for two clauses that are possible separately: they can conflict only on
 * shared paths.
 */
export function isImpossibleTogether(one: Clause, other: Clause): boolean {
  if (hasRef(one) || hasRef(other)) return isImpossible([...one, ...other]);
  const [here, there] = [byPath(one), byPath(other)];
  for (const [path, group] of here) {
    const against = there.get(path);
    if (against !== undefined && isGroupImpossible([...group, ...against])) return true;
  }
  return false;
}

function hasRef(tests: Clause): boolean {
  return tests.some(({ ref }) => ref !== undefined);
}

/** Groups the tests by path. Paths that must be equal because of `==` form one group. */
export function groupsOf(tests: Clause): readonly Group[] {
  const members = new Map<string, Set<string>>();
  const at = (path: string) => {
    const known = members.get(path) ?? new Set([path]);
    members.set(path, known);
    return known;
  };
  for (const { path, ref, operator } of tests) {
    const [left, right] = [at(path), at(ref ?? path)];
    if (operator !== '==' || left === right) continue;
    for (const one of right) {
      left.add(one);
      members.set(one, left);
    }
  }
  const tested = byPath(tests);
  return [...new Set(members.values())].map((paths) => ({
    paths: [...paths],
    tests: [...paths].flatMap((path) => tested.get(path) ?? []),
  }));
}

// Cached, because a rule's clauses are compared with those of many other rules.
const pathsOf = new WeakMap<Clause, ReadonlyMap<string, Clause>>();

function byPath(tests: Clause): ReadonlyMap<string, Clause> {
  const known = pathsOf.get(tests);
  if (known !== undefined) return known;
  const groups = new Map<string, Test[]>();
  for (const test of tests) {
    const group = groups.get(test.path);
    if (group) group.push(test);
    else groups.set(test.path, [test]);
  }
  pathsOf.set(tests, groups);
  return groups;
}

function isGroupImpossible(group: Clause): boolean {
  const able = kindsOfGroup(group);
  if (able === 0) return true;
  const values = candidatesOf(group);
  if (values !== undefined) return values.length === 0;
  return isEmpty(rangeOfGroup(group));
}

function kindsOfGroup(group: Clause): number {
  let able = anyKind;
  for (const test of group) able &= test.kinds;
  return able;
}

function rangeOfGroup(group: Clause): NumberRange {
  return rangeOf(group.flatMap(({ bound }) => bound ?? []));
}

/** The only values at this path that satisfy every test; undefined if they cannot be listed. */
function candidatesOf(group: Clause): readonly (JsonValue | undefined)[] | undefined {
  const listed =
    group.find(({ values }) => values !== undefined)?.values ?? wordsAt(group[0]?.path);
  if (listed === undefined) return undefined;
  const able = kindsOfGroup(group);
  return listed.filter((value) => (kindOf(value) & able) !== 0 && satisfies(group, value));
}

/** All values of a path that has an enumerated set of words. */
function wordsAt(path: string | undefined): readonly (string | undefined)[] | undefined {
  const field = path === undefined ? undefined : fieldAt(path);
  if (field?.kind !== 'text' || field.words === undefined) return undefined;
  return field.always ? field.words : [...field.words, undefined];
}

export function satisfies(group: Clause, value: JsonValue | undefined): boolean {
  return group.every(({ holdsFor }) => holdsFor === undefined || holdsFor(value));
}

interface Order {
  readonly less: string;
  readonly more: string;
  readonly strict: boolean;
}

/**
 * True if comparisons of two paths contradict each other, or contradict the ranges of these paths.
 */
function orderFails(refs: Clause, groups: readonly Group[]): boolean {
  const groupAt = (path: string) => groups.find(({ paths }) => paths.includes(path));
  const orders = refs.flatMap(orderOf);
  for (const { less, more, strict } of orders) {
    const [one, other] = [groupAt(less), groupAt(more)];
    if (one === undefined || other === undefined) continue;
    if (one === other && strict) return true;
    const [low, high] = [reachOf(one.tests), reachOf(other.tests)];
    if (low === undefined || high === undefined) return true;
    if (low.low > high.high) return true;
    const touches = low.lowInclusive && high.highInclusive && !strict;
    if (low.low === high.high && !touches) return true;
    const reversed = (back: Order) =>
      groupAt(back.less) === other && groupAt(back.more) === one && (strict || back.strict);
    if (orders.some(reversed)) return true;
  }
  return refs.some(
    (test) =>
      (isDifference(test) && groupAt(test.path) === groupAt(test.ref ?? '')) ||
      refs.some((other) => isOpposite(test, other)),
  );
}

function orderOf({ path, ref, operator }: Test): readonly Order[] {
  if (ref === undefined) return [];
  const strict = operator === '<' || operator === '>';
  if (operator === '<' || operator === '<=') return [{ less: path, more: ref, strict }];
  if (operator === '>' || operator === '>=') return [{ less: ref, more: path, strict }];
  return [];
}

/** True for `!=` between two different paths. */
function isDifference({ operator, path, ref }: Test): boolean {
  return operator === '!=' && ref !== path;
}

/** True if the tests are `in` and `not_in` with the same path and list. */
function isOpposite(one: Test, other: Test): boolean {
  const isSame = one.path === other.path && one.ref === other.ref;
  return isSame && one.operator === 'in' && other.operator === 'not_in';
}

/** The numbers that satisfy a group; undefined if there are none. */
function reachOf(group: Clause): NumberRange | undefined {
  if ((kindsOfGroup(group) & numeric) === 0) return undefined;
  const values = candidatesOf(group);
  if (values === undefined) return rangeOfGroup(group);
  const numbers = values
    .map((value) => toNumber(value, false))
    .filter((value) => !Number.isNaN(value));
  if (numbers.length === 0) return undefined;
  return { ...everyNumber, low: Math.min(...numbers), high: Math.max(...numbers) };
}

/** True only if every context that satisfies the clause satisfies the test. */
export function implies(clause: Clause, test: Test): boolean {
  const group = byPath(clause).get(test.path) ?? [];
  const says = (other: Test) =>
    other.text === test.text && (other.permits || !test.permits || isOrder(test));
  if (group.some(says)) return true;
  const { holdsFor, bound, excludes } = test;
  if (holdsFor === undefined) return clause.some(says);
  const values = candidatesOf(group);
  if (values !== undefined && group.length > 0) return values.every(holdsFor);
  if (test.globs !== undefined) return group.some((other) => isScopeWithin(other, test.globs));
  const able = kindsOfGroup(group);
  if (bound !== undefined) return (able & ~numeric) === 0 && isWithin(rangeOfGroup(group), bound);
  if (excludes === undefined || (able & ~test.kinds) !== 0) return false;
  return excludes.every((value) => !satisfies(group, value));
}

/**
 * True for `<`, `<=`, `>` and `>=`. In permitting rules, these operators are false for text with an
 * exponent. Apart from that, they are the same in permitting and refusing rules.
 */
function isOrder({ operator }: Test): boolean {
  return operator === '>' || operator === '>=' || operator === '<' || operator === '<=';
}

function isScopeWithin({ globs }: Test, wider: readonly string[] = []): boolean {
  return globs !== undefined && everyGlobIsCovered(wider, globs, 'tool');
}

/** True if a value of this kind is possible at the group's paths. */
export function allowsKind(group: Clause, value: JsonValue | undefined): boolean {
  return (kindsOfGroup(group) & kindOf(value)) !== 0;
}
