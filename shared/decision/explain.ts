import type { Verdict } from '../vocabulary/verdict.ts';
import { readTheComment } from './next-steps.ts';

/** `explain` of a preflight response; `observed` is present only if not empty. */
interface Explanation {
  readonly summary: string;
  readonly matched_rules: readonly string[];
  readonly next_steps: readonly string[];
  readonly observed?: Verdict['observed'];
  readonly details?: RefusalDetails;
}

/** Details of a refusal in addition to its standard fields. */
export interface RefusalDetails {
  /**
   * RFC 3339 time at which the budget allows this call again, if no other calls are counted until
   * then.
   */
  readonly resets_at?: string;
  /** A decider's comment on this action: the reason for a denial, or a question. Redacted data. */
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
