import { refuseDuplicateNames } from '../../shared/binding/args.ts';
import type { ActionRequest, ActionResponse } from '../../shared/contract/actions.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { explainVerdict } from '../../shared/decision/explain.ts';
import { passportStatus } from '../../shared/decision/passport-status.ts';
import { errorKindOf, isErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { requestersOf } from '../approvals/approval-request.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { type Begin, idempotent } from '../platform/http/idempotency.ts';
import { pauser } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import { type JudgedAction, type Judging, judgeAction } from './judge-action.ts';
import { pendingDecision, readAnswer, type Sealing } from './pending-decision.ts';

/** After this time another process takes over a decision. Exactly one of the two counts. */
const abandonedMs = 10_000;

/**
 * True for a reason that may be gone a moment later: such a response is not stored under an
 * idempotency key.
 */
export function restsOnOutage(reasonCode: string): boolean {
  return errorKindOf(reasonCode)?.countsAs === 'outage';
}

/**
 * Decides on an action without performing it (contract 4.1). With an idempotency key a repeat gets
 * the first response and does not consume a passport again, also after a crash of the first
 * process.
 */
export async function preflight(
  services: Services,
  caller: Caller,
  request: ActionRequest,
): Promise<ActionResponse> {
  const action = await actionOf(caller, request);
  const judge = async (begin?: Begin) => {
    const judging: Judging = {
      action,
      passport: request.passport,
      point: 'preflight',
      environment: services.config.environment,
      principal: caller.principal,
      requestedBy: requestersOf(caller),
      isAnswerKept: begin !== undefined,
    };
    const storePendingDecision = async (judged: JudgedAction, sealing: Sealing) => {
      const outcome = outcomeOf(judged);
      if (isPassing(outcome)) return;
      await begin?.({ status: 200, body: pendingDecision(sealing, outcome) });
    };
    return answerOf(await judgeAction(services, judging, storePendingDecision));
  };
  const { idempotency_key: key, ...payload } = request;
  if (key === undefined) return judge();
  const call = { services, caller, operation: 'preflight', agentId: action.agentId, key, payload };
  const { body } = await idempotent({ ...call, abandonedMs }, async (begin) => {
    const body = await judge(begin);
    return { status: 200, body, isPassing: isPassing({ answer: body }) };
  });
  return readAnswer(services, caller.tenantId, body);
}

type Outcome = { readonly answer: ActionResponse } | { readonly refusal: GatewayError };

function outcomeOf(judged: JudgedAction): Outcome {
  try {
    return { answer: answerOf(judged) };
  } catch (thrown) {
    if (thrown instanceof GatewayError) return { refusal: thrown };
    throw thrown;
  }
}

/** Whether a repeat may get another response. */
function isPassing(outcome: Outcome): boolean {
  return 'answer' in outcome
    ? restsOnOutage(outcome.answer.reason_code)
    : outcome.refusal.kind.status >= 500;
}

/**
 * Builds the action of a request in the caller's tenant. A key that is bound to an agent speaks for
 * that agent only.
 */
export async function actionOf(caller: Caller, request: ActionRequest): Promise<Action> {
  assertOwnAgent(caller, request.agent_id);
  const args = request.args ?? {};
  const pause = pauser();
  // Arguments that JSON cannot hold exactly could be neither digested nor approved.
  measureWork(() => canonicalJson(args));
  await pause();
  measureWork(() => refuseDuplicateNames(args));
  await pause();
  return {
    tenantId: caller.tenantId,
    agentId: request.agent_id,
    agentName: request.agent_name,
    userId: request.user_id,
    tool: request.tool,
    resource: request.resource,
    args,
    goal: request.goal,
    mode: request.mode,
    audience: request.audience,
  };
}

/**
 * Converts a verdict to the response of the contract; throws if the contract answers it with an
 * error.
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
