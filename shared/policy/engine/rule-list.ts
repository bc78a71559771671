import type { Requirement } from '../language/condition.ts';
import type { PolicyContext } from '../language/context.ts';
import type { CompiledRule } from './rule.ts';

/** A rule in its place among all rules of a set. */
export interface PlacedRule {
  readonly rule: CompiledRule;
  /** Rank in the order of (policy id, rule index); the same whatever other policies there are. */
  readonly rank: number;
}

/** A rule and those of its requirements that an index has not settled yet. */
export interface Candidate {
  readonly placed: PlacedRule;
  readonly open: readonly Requirement[];
}

/** Adds every rule that matches to `found`, in no particular order. */
export type CollectRules = (context: PolicyContext, found: PlacedRule[]) => void;

/** Tries every candidate. */
export function listRules(candidates: readonly Candidate[]): CollectRules {
  const tests = candidates.map(({ placed, open }) => ({ placed, holds: holdsAll(open) }));
  return (context, found) => {
    for (const { placed, holds } of tests) if (holds(context)) found.push(placed);
  };
}

/** The same candidate without one of its requirements, which an index has settled. */
export function settle(candidate: Candidate, requirement: Requirement): Candidate {
  return { ...candidate, open: candidate.open.filter((other) => other !== requirement) };
}

export function holdsAll(requirements: readonly Requirement[]): Requirement['holds'] {
  const [first, second, ...more] = requirements.map(({ holds }) => holds);
  if (first === undefined) return () => true;
  if (second === undefined) return first;
  if (more.length === 0) return (context) => first(context) && second(context);
  return (context) => {
    if (!first(context) || !second(context)) return false;
    for (const holds of more) if (!holds(context)) return false;
    return true;
  };
}
