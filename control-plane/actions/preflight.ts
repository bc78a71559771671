import type { ActionRequest, ActionResponse } from '../../shared/contract/actions.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import type { Action } from '../../shared/decision/action.ts';
import { explainVerdict } from '../../shared/decision/explain.ts';
import { passportStatus } from '../../shared/decision/passport-status.ts';
import { GatewayError, isErrorCode } from '../../shared/errors.ts';
import { assertOwnAgent } from '../agents/own-agent.ts';
import { idempotent } from '../http/idempotency.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { type JudgedAction, judgeAction } from './judge-action.ts';

/** Refusals that are answered with 200 and say nothing of the action itself. */
const outages: ReadonlySet<string> = new Set([
  'approval.unavailable',
  'passport.claim_unavailable',
]);

/** True for an answer that another moment may change: it is not kept for an idempotency key. */
export function restsOnOutage(reasonCode: string): boolean {
  return outages.has(reasonCode);
}

/**
 * Decides on an action without performing it (contract 4.1). With an idempotency key a repeat
 * gets the first answer, and takes no use of a passport.
 */
export async function preflight(
  services: Services,
  caller: Caller,
  request: ActionRequest,
): Promise<ActionResponse> {
  const action = actionOf(caller, request);
  const judge = async () => {
    const judged = await judgeAction(services, {
      action,
      passport: request.passport,
      point: 'preflight',
      environment: services.config.environment,
      principal: caller.principal,
    });
    return answerOf(judged);
  };
  const { idempotency_key: key, ...payload } = request;
  if (key === undefined) return judge();
  const { body } = await idempotent(
    { services, caller, operation: 'preflight', agentId: action.agentId, key, payload },
    async () => {
      const body = await judge();
      return { status: 200, body, isPassing: restsOnOutage(body.reason_code) };
    },
  );
  return body as ActionResponse;
}

/**
 * The action that a request asks about, in the caller's tenant. A key that is bound to an agent
 * speaks for that agent only.
 */
export function actionOf(caller: Caller, request: ActionRequest): Action {
  assertOwnAgent(caller, request.agent_id);
  const args = request.args ?? {};
  // What JSON cannot hold faithfully could be neither digested nor approved.
  canonicalJson(args);
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

/** A verdict as the contract answers it; throws for what it answers as an error. */
export function answerOf(judged: JudgedAction): ActionResponse {
  const { verdict, approvalId, eventId, chainId, failure } = judged;
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
    explain: explainVerdict(verdict),
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
