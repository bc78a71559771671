import { errorKindOf } from '../errors/error-kinds.ts';
import type { Verdict } from '../vocabulary/verdict.ts';

/**
 * The HTTP status of a decision's answer (design 3): a passport that proves nothing is 401, one
 * that may not be used here 403, every other outcome 200. Only where the verdict is enforced, and
 * only for what the gateway itself found: a rule may stamp any reason it likes.
 */
export function passportStatus(verdict: Verdict): 200 | 401 | 403 {
  if (!verdict.enforced || verdict.decision !== 'deny') return 200;
  if (verdict.policyHash !== undefined || verdict.matchedRules.length > 0) return 200;
  const { passport } = errorKindOf(verdict.reasonCode) ?? {};
  if (passport === 'unproved') return 401;
  return passport === 'unusable' ? 403 : 200;
}
