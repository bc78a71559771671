import { isJsonObject } from '../../shared/base/json.ts';
import { knownContext } from '../../shared/ledger/privacy/known-context.ts';
import type { UncertainPolicies } from '../../shared/policy/uncertain/uncertain-policies.ts';
import type { SealedDecision } from './decision-pages.ts';
import type { Rejudged } from './rejudged.ts';

type Judge = (event: SealedDecision) => Rejudged;

/**
 * Judges a stored decision in the mode that the policies raise it to. A decision that was made in
 * `strict` has met what that mode asks for.
 */
export function inRaisedMode(
  event: SealedDecision,
  policies: UncertainPolicies,
  judge: Judge,
): Rejudged {
  if (event.data.mode === 'strict') return judge(event);
  const isStrict = policies.strict(knownContext(event));
  if (isStrict === false) return judge(event);
  const raised = judgeStrictly(event, judge);
  if (isStrict === true) return raised;
  const asBefore = judge(event);
  const isSame = asBefore.decision === raised.decision && asBefore.reasonCode === raised.reasonCode;
  return isSame ? asBefore : { ...asBefore, decision: 'unknown', reasonCode: undefined };
}

/** In the order of `decide`: a registered agent, a passport, a registered tool. */
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
