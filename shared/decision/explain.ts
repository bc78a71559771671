import type { Verdict } from './verdict.ts';

/** `explain` of a preflight response (contract 2.2); `observed` only where something was. */
interface Explanation {
  readonly summary: string;
  readonly matched_rules: readonly string[];
  readonly next_steps: readonly string[];
  readonly observed?: Verdict['observed'];
}

export function explainVerdict(verdict: Verdict): Explanation {
  const { summary, matchedRules, nextSteps, observed } = verdict;
  const explanation = { summary, matched_rules: matchedRules, next_steps: nextSteps };
  return observed.length === 0 ? explanation : { ...explanation, observed };
}
