import type { ActionResponse } from '../../shared/contract/actions.ts';
import { explainVerdict } from '../../shared/decision/explain.ts';
import { passportStatus } from '../../shared/decision/passport-status.ts';
import { errorKindOf, isErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ReachedAction } from './judge-action.ts';

export interface JudgedAction extends ReachedAction {
  /** Id of the decision's event. */
  readonly eventId: string;
  readonly chainId: string;
}

/** The response to a decision, or the error that the contract prescribes for it. */
export type Outcome = { readonly answer: ActionResponse } | { readonly refusal: GatewayError };

export function outcomeOf(judged: JudgedAction): Outcome {
  try {
    return { answer: answerOf(judged) };
  } catch (thrown) {
    if (thrown instanceof GatewayError) return { refusal: thrown };
    throw thrown;
  }
}

/** True if the outcome is temporary: a repeat of the request may get a different response. */
export function isPassing(outcome: Outcome): boolean {
  return 'answer' in outcome
    ? restsOnOutage(outcome.answer.reason_code)
    : outcome.refusal.kind.status >= 500;
}

/**
 * True if the reason is a temporary outage. Such a response is not stored under an idempotency key.
 */
export function restsOnOutage(reasonCode: string): boolean {
  return errorKindOf(reasonCode)?.countsAs === 'outage';
}

/**
 * Converts a judged action to its API response; throws if the contract prescribes an error for it.
 */
export function answerOf(judged: JudgedAction): ActionResponse {
  const { verdict, approvalId, approverComment, eventId, chainId, failure } = judged;
  const { reasonCode } = verdict;
  const linkage = {
    chain_id: chainId,
    evidence_event_id: eventId,
    mode: verdict.mode,
    enforced: verdict.enforced,
  };
  if (failure !== undefined) throw refusal(failure.code, failure.message, linkage, failure.cause);
  if (passportStatus(verdict) !== 200 && isErrorCode(reasonCode)) {
    throw refusal(reasonCode, verdict.summary, linkage);
  }
  return {
    decision: verdict.decision,
    reason_code: reasonCode,
    summary: verdict.summary,
    matched_rules: verdict.matchedRules,
    ...(approvalId === undefined ? {} : { approval_request_id: String(approvalId) }),
    risk_tier: verdict.riskTier,
    tool_manifest_hash: verdict.toolManifestHash,
    policy_hash: verdict.policyHash,
    ...linkage,
    explain: explainVerdict(verdict, approverComment),
  };
}

function refusal(
  code: GatewayError['code'],
  message: string,
  linkage: Readonly<Record<string, unknown>>,
  cause?: unknown,
): GatewayError {
  return new GatewayError(code, { message, cause, details: { decision: 'deny', ...linkage } });
}
