import type { ConditionBound, Requirement } from '../language/condition.ts';
import { compilePath } from '../language/path.ts';
import { toNumber } from '../language/relations.ts';
import {
  type Candidate,
  type CollectRules,
  holdsAll,
  type PlacedRule,
  removeRequirement,
} from './rule-list.ts';

/** With fewer rungs than this, evaluating every rule of a list is as fast as a ladder. */
const rungsMin = 4;

interface Ladder {
  readonly collect: CollectRules;
  /** Candidates without a bound in this direction at the path. */
  readonly rest: readonly Candidate[];
}

interface Rung {
  readonly limit: number;
  readonly inclusive: boolean;
  readonly permits: boolean;
  readonly placed: PlacedRule;
  readonly holds: Requirement['holds'];
}

/**
 * Sorts candidates by numeric limits at one path, such as `args.amount > 100`, so that a look-up
 * ends at the first limit that the value does not reach. Upper limits are stored with inverted
 * sign. Undefined if too few candidates share a path.
 */
export function buildLadder(candidates: readonly Candidate[]): Ladder | undefined {
  const side = commonestSide(candidates);
  if (side === undefined) return undefined;
  const rungs: Rung[] = [];
  const rest: Candidate[] = [];
  for (const candidate of candidates) {
    const requirement = candidate.open.find(({ bound }) => isOnSide(bound, side));
    if (requirement?.bound === undefined) rest.push(candidate);
    else rungs.push(rungOf(candidate, requirement, requirement.bound));
  }
  rungs.sort(byLimit);
  return { collect: climb(side, rungs), rest };
}

interface Side {
  readonly path: string;
  readonly upper: boolean;
}

function isUpper({ operator }: ConditionBound): boolean {
  return operator === '<' || operator === '<=';
}

function isOnSide(bound: ConditionBound | undefined, { path, upper }: Side): boolean {
  return bound !== undefined && bound.path === path && isUpper(bound) === upper;
}

function rungOf(candidate: Candidate, requirement: Requirement, bound: ConditionBound): Rung {
  return {
    limit: isUpper(bound) ? -bound.limit : bound.limit,
    inclusive: bound.operator === '>=' || bound.operator === '<=',
    permits: bound.permits,
    placed: candidate.placed,
    holds: holdsAll(removeRequirement(candidate, requirement).open),
  };
}

/** Compares rungs by their limits. Of two equal limits, the inclusive one comes first. */
function byLimit(one: Rung, other: Rung): number {
  if (one.limit !== other.limit) return one.limit < other.limit ? -1 : 1;
  return Number(other.inclusive) - Number(one.inclusive);
}

function climb({ path, upper }: Side, rungs: readonly Rung[]): CollectRules {
  const read = compilePath(path);
  return (context, found) => {
    const side = read(context);
    const number = toNumber(side, false);
    const mayPermit = !Number.isNaN(toNumber(side, true));
    const value = upper ? -number : number;
    for (const { limit, inclusive, permits, placed, holds } of rungs) {
      if (!(value > limit || (inclusive && value === limit))) return;
      if ((mayPermit || !permits) && holds(context)) found.push(placed);
    }
  };
}

function commonestSide(candidates: readonly Candidate[]): Side | undefined {
  const counts = new Map<string, Side & { rules: number }>();
  for (const { open } of candidates) {
    for (const { bound } of open) {
      if (bound === undefined) continue;
      const upper = isUpper(bound);
      const key = `${upper} ${bound.path}`;
      const side = counts.get(key) ?? { path: bound.path, upper, rules: 0 };
      side.rules += 1;
      counts.set(key, side);
    }
  }
  let best: (Side & { rules: number }) | undefined;
  for (const side of counts.values()) {
    if (side.rules >= rungsMin && side.rules > (best?.rules ?? 0)) best = side;
  }
  return best;
}
