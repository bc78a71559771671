import type { JsonObject } from '../base/json.ts';
import type { Verdict } from '../vocabulary/verdict.ts';
import { effectIn } from './reach-verdict.ts';

/**
 * What the event of a decision says of budgets: there where the call counts, with the values that
 * it adds, so that the ledger explains every sum. `run` names who counted it.
 */
export function usageEvidence(verdict: Verdict, run: string): JsonObject {
  const effect = effectIn(verdict, 'count_usage');
  return effect === undefined ? {} : { usage: effect.sums, usage_run: run };
}
