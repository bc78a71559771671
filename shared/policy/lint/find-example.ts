import type { JsonObject, JsonValue } from '../../base/json.ts';
import { intersectGlobs } from '../../glob/glob-intersection.ts';
import type { PolicyContext } from '../language/context.ts';
import { fieldAt } from '../language/context-fields.ts';
import { segmentsOf } from '../language/path.ts';
import { toNumber } from '../language/relations.ts';
import type { Clause, Test } from './clause.ts';
import { sampleTexts } from './pattern-sample.ts';
import { allowsKind, type Group, groupsOf, satisfies } from './reasoning.ts';

const valuesPerGroup = 12;
const triesMax = 400;
/** Cost of a search, in units of one comparison of two tests. `tryCost`: cost of one try. */
const searchCost = 100;
const tryCost = 50;
const commonToolSteps = 5_000;

/** Fields that every call has, so that an example is a realistic context. */
const base: PolicyContext = {
  tenant: { id: 't' },
  agent: { id: '1' },
  user: { id: 'u' },
  tool: { name: 'x' },
  args: {},
  resource: { id: 'r' },
  environment: 'prod',
};

/** Remaining budget of the search, counted down. */
export interface Effort {
  left: number;
}

type Value = JsonValue | undefined;

/**
 * Searches for a context that satisfies all tests, by trying values equal or close to those in the
 * tests. Each candidate is verified with the conditions that decide requests, so a result is always
 * correct. If nothing is found, nothing is proved. Bounded and deterministic.
 */
export function findExample(
  tests: Clause,
  effort: Effort = { left: Infinity },
): PolicyContext | undefined {
  effort.left -= searchCost;
  const groups = groupsOf(tests);
  const pools = groups.map((group) => poolOf(group));
  const linked = linkPools(tests, groups, pools);
  const choices = groups.map((group, index) => {
    const pool = [...new Set([...(linked[index] ?? []), ...(pools[index] ?? [])])];
    return pool
      .filter((value) => allowsKind(group.tests, value) && satisfies(group.tests, value))
      .slice(0, valuesPerGroup);
  });
  if (choices.some(({ length }) => length === 0)) return undefined;
  for (const choice of combinations(choices)) {
    effort.left -= tryCost;
    if (effort.left < 0) return undefined;
    const context = build(groups, choice);
    if (tests.every(({ holds }) => holds(context))) return context;
  }
  return undefined;
}

/**
 * Yields combinations of one choice from each list, beginning with all first choices; the last list
 * varies fastest.
 */
function* combinations(choices: readonly (readonly Value[])[]): Generator<readonly Value[]> {
  const at = choices.map(() => 0);
  for (let tries = 0; tries < triesMax; tries += 1) {
    yield choices.map((choice, index) => choice[at[index] ?? 0]);
    let index = choices.length - 1;
    for (; index >= 0; index -= 1) {
      at[index] = (at[index] ?? 0) + 1;
      if ((at[index] ?? 0) < (choices[index]?.length ?? 0)) break;
      at[index] = 0;
    }
    if (index < 0) return;
  }
}

/** The values to try at one path. */
function poolOf({ tests, paths }: Group): readonly Value[] {
  const listed = tests.find(({ values }) => values !== undefined)?.values;
  if (listed !== undefined) return listed;
  const words = paths.flatMap((path) => {
    const field = fieldAt(path);
    return field?.kind === 'text' ? (field.words ?? []) : [];
  });
  return [
    ...words,
    ...toolsFor(tests),
    ...numbersFor(tests),
    ...textsFor(tests),
    ...listsFor(tests),
    ...ordinary,
  ];
}

/** A sample tool for each glob, and tools that the globs of two tests have in common. */
function toolsFor(tests: Clause): readonly Value[] {
  const scopes = tests.flatMap(({ globs }) => (globs === undefined ? [] : [globs]));
  const [first = [], second = []] = scopes;
  const budget = { steps: commonToolSteps };
  const common = first.flatMap((one) =>
    second.flatMap((other) => {
      const found = intersectGlobs(one, other, 'tool', budget);
      return found.kind === 'common' ? [found.text] : [];
    }),
  );
  const each = scopes.flat().map((glob) => glob.replace(/\*+/g, 'x'));
  return [...new Set([...common, ...each])];
}

const ordinary: readonly Value[] = [
  'x',
  'y',
  'z',
  'other',
  undefined,
  0,
  1,
  2,
  3,
  true,
  false,
  null,
  [],
  ['x'],
  {},
];

function numbersFor(tests: Clause): readonly Value[] {
  const limits = tests.flatMap(({ bound }) => bound?.limit ?? []).sort((one, other) => one - other);
  const between = limits.map((limit, index) => (limit + (limits[index + 1] ?? limit)) / 2);
  const near = limits.flatMap((limit) => [limit, limit + 1, limit - 1]);
  const far = limits.flatMap((limit) => [
    limit + 2,
    limit + 0.5,
    limit - 0.5,
    limit * 2,
    limit / 2,
  ]);
  const whole = between.map((value) => Math.round(value));
  const all = [...whole, ...near, ...between, ...far].filter(Number.isFinite);
  return [...all, ...[...near, ...whole].map(String), ...near.map((value) => `${value}.0`)];
}

function textsFor(tests: Clause): readonly Value[] {
  const contained = tests.flatMap(({ operator, literal }) =>
    operator === 'contains' && typeof literal === 'string' ? literal : [],
  );
  const samples = tests
    .filter(({ operator }) => operator === 'matches')
    .flatMap(({ literal }) => sampleTexts(String(literal)));
  const parts = [...samples, ...contained].slice(0, 12);
  const joined = parts.flatMap((one) =>
    parts.filter((other) => other !== one).flatMap((other) => [one + other, `${one} ${other}`]),
  );
  return [...parts, contained.join(''), contained.join(' '), ...joined];
}

function listsFor(tests: Clause): readonly Value[] {
  const elements = tests.flatMap(({ operator, literal, ref }) =>
    operator === 'contains' && ref === undefined ? [literal] : [],
  );
  return elements.length === 0 ? [] : [elements];
}

/**
 * For each comparison of two paths, adds the values of one path, and neighbouring numbers, to the
 * values to try at the other path.
 */
function linkPools(
  tests: Clause,
  groups: readonly Group[],
  pools: readonly (readonly Value[])[],
): readonly (readonly Value[])[] {
  const linked: Value[][] = groups.map(() => []);
  const indexOf = (path: string) => groups.findIndex(({ paths }) => paths.includes(path));
  for (const test of tests) {
    if (test.ref === undefined) continue;
    const [left, right] = [indexOf(test.path), indexOf(test.ref)];
    linked[left]?.unshift(...beside(test, pools[right] ?? []));
    linked[right]?.unshift(...beside(test, pools[left] ?? []));
  }
  return linked;
}

function beside({ operator }: Test, pool: readonly Value[]): readonly Value[] {
  const some = pool.slice(0, valuesPerGroup);
  if (operator === 'in' || operator === 'contains') {
    return some.flatMap((value) => (value === undefined ? [] : [[value], value]));
  }
  const numbers = some.map((value) => toNumber(value, false)).filter(Number.isFinite);
  return [...numbers.flatMap((value) => [value, value + 1, value - 1]), ...some];
}

function build(groups: readonly Group[], choice: readonly Value[]): PolicyContext {
  const places = groups
    .flatMap(({ paths }, index) => paths.map((path) => ({ path, value: choice[index] })))
    .filter(({ value }) => value !== undefined)
    .sort((one, other) => one.path.length - other.path.length);
  const context = structuredClone(base) as Record<string, unknown>;
  for (const { path, value } of places) place(context, segmentsOf(path), structuredClone(value));
  return context as JsonObject;
}

/** Sets a value at a path if possible; does not overwrite values along the path. */
function place(
  context: Record<string, unknown>,
  segments: readonly string[],
  value: unknown,
): void {
  let target = context;
  for (const segment of segments.slice(0, -1)) {
    if (!Object.hasOwn(target, segment)) define(target, segment, {});
    const next = target[segment];
    if (typeof next !== 'object' || next === null) return;
    target = next as Record<string, unknown>;
  }
  define(target, segments.at(-1) ?? '', value);
}

function define(target: Record<string, unknown>, segment: string, value: unknown): void {
  if (Array.isArray(target) && segment === 'length') return;
  Object.defineProperty(target, segment, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}
