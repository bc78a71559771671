import type { Decision } from '../../shared/vocabulary/verdict.ts';

/** What other policies make of a stored decision. */
export interface Rejudged {
  readonly decision: Decision | 'unknown';
  readonly reasonCode?: string | undefined;
  readonly matchedRules: readonly string[];
  readonly unsureRules: readonly string[];
}
