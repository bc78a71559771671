import type {
  ActionRequest,
  ActionResponse,
  ExecuteResponse,
} from '../../shared/contract/actions.ts';
import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { effectiveMode } from '../../shared/decision/mode.ts';
import { stepsFor } from '../../shared/decision/next-steps.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { type ErrorCode, errorKinds } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type Action, stricterMode } from '../../shared/vocabulary/action.ts';
import { mayProceed, type Verdict } from '../../shared/vocabulary/verdict.ts';
import { requestersOf } from '../approvals/approval-request.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { toAnswerable } from '../platform/http/errors.ts';
import {
  type Begin,
  idempotent,
  type KeptAnswer,
  type LostCall,
} from '../platform/http/idempotency.ts';
import type { UpstreamOutcome } from '../platform/upstream/answer-collector.ts';
import { restsOnOutage } from './decision-answer.ts';
import { DecisionAttempt } from './decision-attempt.ts';
import { describeAnswer } from './describe-answer.ts';
import { type ExecutionEnd, executionEvent, executionFields } from './execution-event.ts';
import type { Judging } from './judge-action.ts';
import { loadState, type StateRequest } from './load-state.ts';
import { type PreparedExecution, prepareExecution } from './prepare-execution.ts';
import { actionOf } from './requested-action.ts';
import { sealSalted } from './seal-salted.ts';

/**
 * Added to the sum of the upstream's timeouts. A call that has no stored response after the
 * resulting time counts as lost.
 */
const marginMs = 60_000;

/**
 * Decides on an action and performs it if allowed (contract 4.1). With an idempotency key the
 * request is sent at most once, also across crashes.
 */
export function execute(
  services: Services,
  caller: Caller,
  request: ActionRequest,
): Promise<ExecuteResponse> {
  // The call completes and is recorded even if the caller disconnects.
  return services.upstream.track(async () => {
    const action = await actionOf(caller, request);
    const { passport, idempotency_key: key, ...payload } = request;
    const judging: Judging = {
      action,
      passport,
      point: 'enforcement',
      environment: services.config.environment,
      principal: caller.principal,
      requestedBy: requestersOf(caller),
    };
    if (key === undefined) return (await judgeAndPerform(services, judging)).body;
    const { upstreamConnectMs, upstreamTimeoutMs } = services.config;
    const { body } = await idempotent(
      {
        services,
        caller,
        operation: 'execute',
        agentId: action.agentId,
        key,
        payload: { ...payload, passport: passport ?? null },
        abandonedMs: upstreamConnectMs + upstreamTimeoutMs + marginMs,
        onLost: (lost) => recordLost(services, action, lost),
      },
      (begin) => judgeAndPerform(services, judging, begin),
    );
    return body as ExecuteResponse;
  });
}

type Execution = KeptAnswer & { readonly body: ExecuteResponse };

/**
 * Runs these steps: build the request, decide, seal the decision, record that the call begins,
 * check that the decision still holds, send the request, seal the result.
 */
async function judgeAndPerform(
  services: Services,
  judging: Judging,
  begin?: Begin,
): Promise<Execution> {
  const prepared = await prepareExecution(services, judging.action);
  const { obstacle, facts } = { facts: undefined, ...prepared };
  const attempt = await DecisionAttempt.decide(services, { ...judging, obstacle, upstream: facts });
  await attempt.seal();
  const decided = attempt.answer();
  const { verdict } = attempt.judged;
  if (prepared.outgoing === undefined || !mayProceed(verdict)) {
    const isPassing = restsOnOutage(decided.reason_code) || isOutage(obstacle);
    return { status: 200, body: { ...decided, executed: false }, isPassing };
  }
  const resultId = await begin?.({ status: 200, body: lostAnswer(decided) });
  const startedMs = services.clock.monotonic();
  const outcome = await perform(services, { judging, verdict, prepared });
  const durationMs = services.clock.monotonic() - startedMs;
  return answerTo(services, { judging, decided, end: { ...outcome, durationMs }, resultId });
}

/** Returns whether the same request can succeed later without a change. */
function isOutage(obstacle: GatewayError | undefined): boolean {
  return obstacle?.kind.retryable === true;
}

interface Permitted {
  readonly judging: Judging;
  readonly verdict: Verdict;
  readonly prepared: Extract<PreparedExecution, { readonly secrets: readonly string[] }>;
}

type Ended = Omit<ExecutionEnd, 'failure'> & { readonly failure?: ErrorCode | undefined };

async function perform(
  services: Services,
  { judging, verdict, prepared }: Permitted,
): Promise<Ended & Pick<UpstreamOutcome, 'answer'>> {
  try {
    await assertStillPermitted(services, judging, verdict);
  } catch (thrown) {
    const { code, message } = toAnswerable(thrown);
    return { executed: false, failure: code, detail: message };
  }
  return services.upstream.send(prepared.outgoing, prepared.secrets);
}

async function answerTo(
  services: Services,
  {
    judging,
    decided,
    end,
    resultId,
  }: {
    readonly judging: Judging;
    readonly decided: ActionResponse;
    readonly end: Ended;
    readonly resultId: string | undefined;
  },
): Promise<Execution> {
  const { action } = judging;
  const { executed, failure, answer } = end;
  const isPassing = executed === false && failure !== undefined && errorKinds[failure].retryable;
  const result = { action, decisionEventId: decided.evidence_event_id, end };
  // If the outcome is not final, a retry under the same key must get a new event.
  const sealing = executionEvent(
    { ...result, resultId: isPassing ? undefined : resultId },
    services.clock,
  );
  const isSealed = await sealEnd(services, action, sealing);
  return {
    status: 200,
    body: {
      ...decided,
      executed,
      ...(answer === undefined ? {} : { result: describeAnswer(answer) }),
      ...(failure === undefined ? {} : { failure: describeFailure(failure) }),
      result_event_id: sealing.event.id,
      ...(isSealed ? {} : { dead_lettered: true as const }),
    },
    isPassing,
  };
}

/**
 * A failed seal becomes a dead letter of the ledger and not an error response, because the call was
 * already performed.
 */
async function sealEnd(
  services: Services,
  { tenantId }: Action,
  sealing: ReturnType<typeof executionEvent>,
): Promise<boolean> {
  try {
    await sealSalted(services, tenantId, sealing);
    return true;
  } catch (err) {
    services.log.error(
      { err, event: sealing.event.id },
      'could not seal an execution result; it is kept as a dead letter',
    );
    return false;
  }
}

function describeFailure(code: ErrorCode) {
  return { reason_code: code, summary: errorKinds[code].text, next_steps: stepsFor(code) };
}

/**
 * Response to a repeat if the process of the first request died before recording how the call
 * ended.
 */
function lostAnswer(decided: ActionResponse): ExecuteResponse {
  return {
    ...decided,
    executed: 'unknown',
    failure: describeFailure('execution.outcome_unknown'),
  };
}

/**
 * Settles a call whose process died. In the same transaction, records the event that the outcome is
 * unknown; concurrent repeats record this event only once.
 */
async function recordLost(
  services: Services,
  action: Action,
  { settle, answer, resultId }: LostCall,
): Promise<void> {
  const { evidence_event_id } = answer.body as ExecuteResponse;
  await commitChange(services, action.tenantId, async (tx, notes) => {
    if (!(await settle(tx))) return;
    const data = { decision_event_id: evidence_event_id, executed: 'unknown', status: null };
    const fields = executionFields(action, 'execution.outcome_unknown', data);
    await notes.event({ ...fields, id: resultId });
  });
}

/**
 * Runs right before an action is sent. Throws if the decision no longer holds because a kill switch
 * was armed, the agent was disabled, the passport was revoked, or the tool changed.
 */
async function assertStillPermitted(
  services: Services,
  request: StateRequest,
  verdict: Verdict,
): Promise<void> {
  const { action } = request;
  const state = await loadState(services, request);
  const now = services.clock.now();
  if (state.agentDisabled === true) throw new GatewayError('agent.disabled');
  if (state.agent === undefined) throw new GatewayError('agent.not_found');
  const armed = blockingSwitch(state.killSwitches, action, now);
  if (armed !== undefined) throw new GatewayError('runtime.kill_switch');
  const mode = effectiveMode(action, state, now);
  if (stricterMode(mode, verdict.mode) !== verdict.mode) {
    throw new GatewayError('runtime.kill_switch', {
      message: `The mode ${mode} became active after the decision was made.`,
    });
  }
  if (verdict.enforced) assertUnchanged(state, verdict);
}

function assertUnchanged({ passport, tool }: DecisionState, verdict: Verdict): void {
  if (passport?.form === 'signed' && passport.revoked) throw new GatewayError('passport.revoked');
  const isSame = tool?.manifestHash === verdict.toolManifestHash;
  const isApproved = tool === undefined || tool.approvalStatus === 'approved';
  if (!isSame || !isApproved) throw new GatewayError('tool.manifest_changed');
}
