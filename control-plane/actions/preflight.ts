import type { ActionRequest, ActionResponse } from '../../shared/contract/actions.ts';
import { requestersOf } from '../approvals/approval-request.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type Begin, idempotent } from '../platform/http/idempotency.ts';
import { isPassing } from './decision-answer.ts';
import { DecisionAttempt } from './decision-attempt.ts';
import type { Judging } from './judge-action.ts';
import { readAnswer } from './pending-decision.ts';
import { actionOf } from './requested-action.ts';

/**
 * After this time, another process may take over an unfinished decision. Only one of the two
 * processes' decisions takes effect.
 */
const abandonedMs = 10_000;

/**
 * Decides on an action without performing it (contract 4.1). With an idempotency key, a repeat gets
 * the first response and does not consume the passport again, even if the first process crashed.
 */
export async function preflight(
  services: Services,
  caller: Caller,
  request: ActionRequest,
): Promise<ActionResponse> {
  const action = await actionOf(caller, request);
  const judging: Judging = {
    action,
    passport: request.passport,
    point: 'preflight',
    environment: services.config.environment,
    principal: caller.principal,
    requestedBy: requestersOf(caller),
  };
  const { idempotency_key: key, ...payload } = request;
  if (key === undefined) return decideOnce(services, judging);
  const call = { services, caller, operation: 'preflight', agentId: action.agentId, key, payload };
  const { body } = await idempotent({ ...call, abandonedMs }, async (begin) => {
    const body = await decideOnce(services, judging, begin);
    return { status: 200, body, isPassing: isPassing({ answer: body }) };
  });
  return readAnswer(services, caller.tenantId, body);
}

async function decideOnce(
  services: Services,
  judging: Judging,
  begin?: Begin,
): Promise<ActionResponse> {
  const isAnswerKept = begin !== undefined;
  const attempt = await DecisionAttempt.decide(services, { ...judging, isAnswerKept });
  if (begin !== undefined) await attempt.persist(begin);
  await attempt.seal();
  return attempt.answer();
}
