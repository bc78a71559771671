import type { Verdict } from './verdict.ts';

const unproved: ReadonlySet<string> = new Set([
  'passport.missing',
  'passport.malformed',
  'passport.signature_invalid',
  'passport.expired',
  'passport.not_yet_valid',
  'passport.audience_mismatch',
]);

const forbidden: ReadonlySet<string> = new Set([
  'passport.replay_detected',
  'passport.claim_unavailable',
  'passport.revoked',
  'passport.tenant_mismatch',
  'passport.agent_mismatch',
  'passport.user_mismatch',
]);

/**
 * The HTTP status of a decision's answer (design 3): a passport that proves nothing is 401, one
 * that may not be used here 403, every other outcome 200. Only where the verdict is enforced, and
 * only for what the gateway itself found: a rule may stamp any reason it likes.
 */
export function passportStatus(verdict: Verdict): 200 | 401 | 403 {
  if (!verdict.enforced || verdict.decision !== 'deny') return 200;
  if (verdict.policyHash !== undefined || verdict.matchedRules.length > 0) return 200;
  if (unproved.has(verdict.reasonCode)) return 401;
  return forbidden.has(verdict.reasonCode) ? 403 : 200;
}
