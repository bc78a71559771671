import type { Verdict } from './verdict.ts';

/** `explain` of a preflight response (contract 2.2); `observed` only where something was. */
interface Explanation {
  readonly summary: string;
  readonly matched_rules: readonly string[];
  readonly next_steps: readonly string[];
  readonly observed?: Verdict['observed'];
  readonly details?: RefusalDetails;
}

/** What a refusal says beyond the contract's words. */
export interface RefusalDetails {
  /** RFC 3339: when the budget that refused this call lets it through again, if nothing is added. */
  readonly resets_at: string;
}

export function explainVerdict(verdict: Verdict): Explanation {
  const { summary, matchedRules, nextSteps, observed } = verdict;
  const details = refusalDetails(verdict);
  return {
    summary,
    matched_rules: matchedRules,
    next_steps: nextSteps,
    ...(observed.length === 0 ? {} : { observed }),
    ...(details === undefined ? {} : { details }),
  };
}

export function refusalDetails({ resetsAtMs }: Verdict): RefusalDetails | undefined {
  return resetsAtMs === undefined ? undefined : { resets_at: new Date(resetsAtMs).toISOString() };
}
