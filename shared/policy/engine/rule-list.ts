import type { Requirement } from '../language/condition.ts';
import type { PolicyContext } from '../language/context.ts';
import type { CompiledRule } from './rule.ts';

/** A rule with its rank among all rules of a set. */
export interface PlacedRule {
  readonly rule: CompiledRule;
  /** Rank by policy id, then by rule index; independent of other policies. */
  readonly rank: number;
}

/** A rule and the requirements that an index has not checked yet. */
export interface Candidate {
  readonly placed: PlacedRule;
  readonly open: readonly Requirement[];
}

/** Adds every matching rule to `found`, in any order. */
export type CollectRules = (context: PolicyContext, found: PlacedRule[]) => void;

/** Evaluates every candidate. */
export function listRules(candidates: readonly Candidate[]): CollectRules {
  const tests = candidates.map(({ placed, open }) => ({ placed, holds: holdsAll(open) }));
  return (context, found) => {
    for (const { placed, holds } of tests) if (holds(context)) found.push(placed);
  };
}

/** Returns the candidate without a requirement that an index has already checked. */
export function removeRequirement(candidate: Candidate, requirement: Requirement): Candidate {
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
