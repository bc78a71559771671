import type { Verdict } from '../vocabulary/verdict.ts';
import { readTheComment } from './next-steps.ts';

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
  readonly resets_at?: string;
  /** What a human said of this action: why they denied it, or what more they ask. Data, redacted. */
  readonly approver_comment?: string;
}

export function explainVerdict(verdict: Verdict, approverComment?: string): Explanation {
  const { summary, matchedRules, nextSteps, observed } = verdict;
  const details = refusalDetails(verdict, approverComment);
  return {
    summary,
    matched_rules: matchedRules,
    next_steps: approverComment === undefined ? nextSteps : [...nextSteps, readTheComment],
    ...(observed.length === 0 ? {} : { observed }),
    ...(details === undefined ? {} : { details }),
  };
}

export function refusalDetails(
  { resetsAtMs }: Pick<Verdict, 'resetsAtMs'>,
  approverComment?: string,
): RefusalDetails | undefined {
  if (resetsAtMs === undefined && approverComment === undefined) return undefined;
  return {
    ...(resetsAtMs === undefined ? {} : { resets_at: new Date(resetsAtMs).toISOString() }),
    ...(approverComment === undefined ? {} : { approver_comment: approverComment }),
  };
}
