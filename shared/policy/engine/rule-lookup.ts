import type { JsonValue } from '../../base/json.ts';
import type { ConditionKeys, Requirement } from '../language/condition.ts';
import { compilePath } from '../language/path.ts';
import { type Candidate, type CollectRules, removeRequirement } from './rule-list.ts';

/** If a look-up saves fewer evaluations than this, a list is faster. */
const gainMin = 4;

interface ValueSplit {
  readonly path: string;
  readonly byValue: ReadonlyMap<JsonValue, readonly Candidate[]>;
  /** Candidates that do not require a certain value at the path. */
  readonly rest: readonly Candidate[];
}

/**
 * Indexes candidates under the values that they require at one path. Chooses the path that
 * separates the most candidates. Undefined if there is no such path. A candidate that accepts more
 * than `valuesMax` values stays in `rest`, to limit the index's size.
 */
export function splitByValue(
  candidates: readonly Candidate[],
  valuesMax: number,
): ValueSplit | undefined {
  const path = bestPath(candidates, valuesMax);
  if (path === undefined) return undefined;
  const byValue = new Map<JsonValue, Candidate[]>();
  const rest: Candidate[] = [];
  for (const candidate of candidates) {
    const requirement = keyedAt(candidate, path, valuesMax);
    if (requirement?.keys === undefined) {
      rest.push(candidate);
      continue;
    }
    const settled = removeRequirement(candidate, requirement);
    for (const value of requirement.keys.values) {
      const filed = byValue.get(value);
      if (filed) filed.push(settled);
      else byValue.set(value, [settled]);
    }
  }
  return { path, byValue, rest };
}

export function lookUp(
  path: string,
  byValue: ReadonlyMap<JsonValue | undefined, CollectRules>,
  rest: CollectRules | undefined,
): CollectRules {
  const read = compilePath(path);
  return (context, found) => {
    byValue.get(read(context))?.(context, found);
    rest?.(context, found);
  };
}

function keyedAt({ open }: Candidate, path: string, valuesMax: number): Requirement | undefined {
  return open.find(({ keys }) => keys?.path === path && keys.values.length <= valuesMax);
}

/**
 * The path whose look-up saves the most evaluations. If several paths save equally many, prefers
 * `tool.name`.
 */
function bestPath(candidates: readonly Candidate[], valuesMax: number): string | undefined {
  let best: string | undefined;
  let bestGain = gainMin - 1;
  for (const [path, { rules, heaviest }] of pathLoads(candidates, valuesMax)) {
    const gain = rules - heaviest;
    if (gain < bestGain || (gain === bestGain && path !== 'tool.name')) continue;
    best = path;
    bestGain = gain;
  }
  return best;
}

interface PathLoad {
  rules: number;
  /** Maximum number of rules that remain after a look-up. */
  heaviest: number;
  readonly perValue: Map<JsonValue, number>;
}

function pathLoads(
  candidates: readonly Candidate[],
  valuesMax: number,
): ReadonlyMap<string, PathLoad> {
  const loads = new Map<string, PathLoad>();
  for (const candidate of candidates) {
    for (const path of new Set(candidate.open.map(({ keys }) => keys?.path))) {
      const keys = path === undefined ? undefined : keyedAt(candidate, path, valuesMax)?.keys;
      if (keys) addLoad(loads, keys);
    }
  }
  return loads;
}

function addLoad(loads: Map<string, PathLoad>, { path, values }: ConditionKeys): void {
  const load: PathLoad = loads.get(path) ?? { rules: 0, heaviest: 0, perValue: new Map() };
  load.rules += 1;
  for (const value of values) {
    const count = (load.perValue.get(value) ?? 0) + 1;
    load.perValue.set(value, count);
    load.heaviest = Math.max(load.heaviest, count);
  }
  loads.set(path, load);
}
