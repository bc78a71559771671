import { isJsonObject } from '../../shared/base/json.ts';
import { errorKindOf } from '../../shared/errors/error-kinds.ts';
import { knownContext } from '../../shared/ledger/privacy/known-context.ts';
import type {
  UncertainOutcome,
  UncertainPolicies,
} from '../../shared/policy/uncertain/uncertain-policies.ts';
import { type Decision, decisions } from '../../shared/vocabulary/verdict.ts';
import type { SealedDecision } from './decision-pages.ts';

/** States whether the passport of a decision was bound to an approval. */
type Binding = 'bound' | 'unbound' | 'unsure';

/**
 * Judges the call of a stored decision with the given policies. Keeps the results of all earlier
 * stages and the validity of the passport's approval. Returns undefined if the stored decision did
 * not depend on policies: a kill switch, passport, tool or argument check decided, or the event is
 * not a tool call.
 */
export function rejudge(event: SealedDecision, policies: UncertainPolicies): Rejudged | undefined {
  if (!isByPolicy(event)) return undefined;
  return inRaisedMode(event, policies, (stored) =>
    inMode(withApproval(stored, policies.judge(knownContext(stored))), stored),
  );
}

/** Returns whether policies were evaluated. */
export function isByPolicy({ decision, reason_code, data }: SealedDecision): boolean {
  if (!isDecision(decision) || data.args_shape === undefined) return false;
  const { matched_rules: matched } = data;
  if (Array.isArray(matched) && matched.length > 0) return true;
  return data.policy_hash !== undefined || reason_code === 'policy.no_match';
}

export function isDecision(word: string | undefined): word is Decision {
  return (decisions as readonly (string | undefined)[]).includes(word);
}

function withApproval(event: SealedDecision, outcome: UncertainOutcome): Rejudged {
  const { decision } = outcome;
  if (decision === 'unknown' || isRefusal(decision)) return outcome;
  const kind = event.decision === 'deny' ? errorKindOf(event.reason_code ?? '') : undefined;
  if (kind?.isUnopened === true) {
    return decision === 'require_approval' ? unchanged(event, outcome) : outcome;
  }
  if (isByStandingGrant(event)) return withStandingGrant(event, outcome);
  const binding = bindingOf(event);
  if (binding === 'unbound') return outcome;
  if (binding === 'unsure') return isAllowed(event) && isPermit(decision) ? outcome : open(outcome);
  if (kind?.grant !== undefined) return unchanged(event, outcome);
  if (!isAllowed(event)) return open(outcome);
  return decision === 'require_approval'
    ? { ...outcome, decision: 'allow', reasonCode: 'approval.satisfied' }
    : outcome;
}

/**
 * Returns whether a human's grant allowed the call without a passport that was bound to the grant.
 */
function isByStandingGrant(event: SealedDecision): boolean {
  const isSatisfied = isAllowed(event) && event.reason_code === 'approval.satisfied';
  return isSatisfied && bindingOf(event) === 'unbound';
}

/**
 * Assumes the standing grant only if the same rule of the same policy version matches: a standing
 * grant covers a rule only within that rule's terms, which the event does not contain.
 */
function withStandingGrant(event: SealedDecision, outcome: UncertainOutcome): Rejudged {
  if (outcome.decision !== 'require_approval') return outcome;
  const { policy_hash: hash, matched_rules: rules } = event.data;
  const [rule, ...more] = outcome.matchedRules;
  const isSame = Array.isArray(rules) && rules.length === 1 && rules[0] === rule;
  const isSure = isSame && more.length === 0 && outcome.unsureRules.length === 0;
  return isSure && outcome.policyHash === hash ? unchanged(event, outcome) : open(outcome);
}

function isRefusal(decision: Decision): boolean {
  return decision === 'deny' || decision === 'require_tool_reapproval';
}

function isPermit(decision: Decision): boolean {
  return decision === 'allow' || decision === 'warn';
}

/**
 * Returns whether the call was allowed, which implies that its approval was valid. In mode `warn`,
 * the stored decision does not show whether its approval was valid.
 */
function isAllowed({ decision, data }: SealedDecision): boolean {
  return decision === 'allow' || (decision === 'warn' && data.mode !== 'warn');
}

function bindingOf({ data }: SealedDecision): Binding {
  if (data.passport_jti === undefined) return 'unbound';
  if (!isJsonObject(data.seen)) return 'unsure';
  return data.seen.approval_bound === true ? 'bound' : 'unbound';
}

function unchanged({ decision, reason_code }: SealedDecision, outcome: UncertainOutcome): Rejudged {
  return {
    ...outcome,
    decision: isDecision(decision) ? decision : 'unknown',
    reasonCode: reason_code,
  };
}

function open(outcome: UncertainOutcome): Rejudged {
  return { ...outcome, decision: 'unknown', reasonCode: undefined };
}

/**
 * In mode `warn`, turns a denial into a warning. The stored decision shows such a denial as a
 * warning, too.
 */
function inMode(judged: Rejudged, { data }: SealedDecision): Rejudged {
  const { decision } = judged;
  if (data.mode !== 'warn' || decision === 'unknown' || isPermit(decision)) return judged;
  return { ...judged, decision: 'warn' };
}

type Judge = (event: SealedDecision) => Rejudged;

/**
 * Judges a stored decision in a stricter mode if the policies raise its mode. A decision that was
 * made in `strict` has already met that mode's requirements.
 */
function inRaisedMode(event: SealedDecision, policies: UncertainPolicies, judge: Judge): Rejudged {
  if (event.data.mode === 'strict') return judge(event);
  const isStrict = policies.strict(knownContext(event));
  if (isStrict === false) return judge(event);
  const raised = judgeStrictly(event, judge);
  if (isStrict === true) return raised;
  const asBefore = judge(event);
  const isSame = asBefore.decision === raised.decision && asBefore.reasonCode === raised.reasonCode;
  return isSame ? asBefore : { ...asBefore, decision: 'unknown', reasonCode: undefined };
}

/**
 * Makes the checks of `strict` in the same order as `decide`: a registered agent, a passport, a
 * registered tool.
 */
function judgeStrictly(event: SealedDecision, judge: Judge): Rejudged {
  const { seen, passport_jti, manifest_hash } = event.data;
  if (!isJsonObject(seen)) return refused('unknown');
  if (seen.agent_name === undefined) return refused('deny', 'agent.not_found');
  if (passport_jti === undefined) return refused('deny', 'passport.missing');
  if (manifest_hash === undefined) return refused('deny', 'tool.unregistered');
  return judge({ ...event, data: { ...event.data, mode: 'strict' } });
}

function refused(decision: 'deny' | 'unknown', reasonCode?: string): Rejudged {
  return { decision, reasonCode, matchedRules: [], unsureRules: [] };
}

/** Result of judging a stored decision with the given policies. */
export interface Rejudged {
  readonly decision: Decision | 'unknown';
  readonly reasonCode?: string | undefined;
  readonly matchedRules: readonly string[];
  readonly unsureRules: readonly string[];
}
