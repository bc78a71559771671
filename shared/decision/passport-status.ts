import { errorKindOf } from '../errors/error-kinds.ts';
import type { Verdict } from '../vocabulary/verdict.ts';

/**
 * The HTTP status of a decision's response: 401 for a passport that failed verification, 403 for
 * one that is not accepted here, otherwise 200. Always 200 if the verdict is not enforced, or if
 * policies supplied the reason, because a rule may set any reason code.
 */
export function passportStatus(verdict: Verdict): 200 | 401 | 403 {
  if (!verdict.enforced || verdict.decision !== 'deny') return 200;
  if (verdict.policyHash !== undefined || verdict.matchedRules.length > 0) return 200;
  const { passport } = errorKindOf(verdict.reasonCode) ?? {};
  if (passport === 'unproved') return 401;
  return passport === 'unusable' ? 403 : 200;
}
