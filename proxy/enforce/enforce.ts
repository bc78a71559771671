import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { mayProceed } from '../../shared/vocabulary/verdict.ts';
import { internalHost } from '../base/internal-host-name.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RecognisedAction } from '../call/recognition.ts';
import { answerInternal } from '../internal-host/internal-host.ts';
import { recognise } from '../recognise/recognise.ts';
import { throttled } from '../records/denial-throttle.ts';
import { recordDecision } from '../records/record-decision.ts';
import { CallContext, decisionHeader, factsOf } from './call-context.ts';
import { credentialFor } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import { answerHeld, holdForApproval, holdTime } from './hold.ts';
import { judge } from './judge.ts';
import { judgeByApproval } from './judge-by-approval.ts';
import { passOn, watchTools } from './pass-on.ts';
import { perform } from './perform.ts';
import type { Judgement } from './reach-judgement.ts';
import { refuseFailed, refuseJudged, refuseUnjudged } from './refuse-call.ts';

/**
 * Handles one request of the agent: recognises it, judges it, records the decision, and only then
 * performs it in the form that was judged, or refuses it. Never rejects, because a call that cannot
 * be decided is refused.
 */
export function enforce(exchange: Exchange, deps: EnforceDeps): Promise<void> {
  return deps.callsInFlight.add(run(exchange, deps));
}

async function run(exchange: Exchange, deps: EnforceDeps): Promise<void> {
  if (exchange.host === internalHost) {
    answerInternal(exchange, deps.internal);
    return;
  }
  const context = new CallContext(exchange, deps);
  try {
    const recognising = recognise(exchange, deps.recognition());
    const recognition = recognising instanceof Promise ? await recognising : recognising;
    context.understood(recognition);
    switch (recognition.kind) {
      case 'refusal':
        return await refuseUnjudged(context, recognition);
      case 'pass':
        return await passOn(context, recognition);
      case 'action':
        return await enforceAction(context, recognition);
    }
  } catch (thrown) {
    await refuseFailed(context, thrown);
  } finally {
    deps.streamOpenings.over(exchange);
    context.trace?.ended(exchange);
  }
}

/** Enforces a tool call: judges it on its arguments, and holds it if a human must decide. */
async function enforceAction(context: CallContext, call: RecognisedAction): Promise<void> {
  const { deps, exchange } = context;
  context.facts = factsOf(exchange, call);
  deps.replica.assertFresh();
  const judging = judge(actionOf(call, deps), call.hints.passport, deps);
  let judgement = judging instanceof Promise ? await judging : judging;
  assertNotThrottled(judgement, deps);
  let evidenceId = await recordDecision(judgement, context);
  let appliedHeaders: Readonly<Record<string, string>> = {};
  if (judgement.verdict.decision === 'require_approval' && judgement.verdict.enforced) {
    const held = { call, judgement, evidenceId, time: holdTime(call.hints, deps) };
    const answer = await holdForApproval(context, held);
    if (answer.outcome !== 'granted') return answerHeld(context, held, answer);
    appliedHeaders = held.time.headers;
    deps.replica.assertFresh();
    context.sinceMs = deps.clock.monotonic();
    judgement = await judgeByApproval(judgement, deps);
    evidenceId = await recordDecision(judgement, context);
  }
  const { verdict, action } = judgement;
  if (!mayProceed(verdict)) return refuseJudged(context, call, { verdict, evidenceId });
  const opening = credentialFor(call, deps);
  const credential = opening instanceof Promise ? await opening : opening;
  await perform(context, {
    outgoing: outgoingFor(call, action),
    binding: call.binding,
    credential,
    filter: watchTools(call.binding, deps),
    evidenceId,
    responseHeaders: {
      ...decisionHeader(verdict.decision, verdict.reasonCode, evidenceId),
      ...appliedHeaders,
    },
  });
}

/**
 * Throws if a refusal exceeds the limit of records; a call that may proceed always gets a record.
 */
function assertNotThrottled({ verdict, release }: Judgement, { denials }: EnforceDeps): void {
  if (mayProceed(verdict) || denials.admit(verdict.reasonCode)) return;
  release();
  throw throttled(verdict.reasonCode);
}

/**
 * Builds the request with the arguments that an approver may have changed. A change must not alter
 * the resource.
 */
function outgoingFor(call: RecognisedAction, { args }: Action): Outgoing {
  if (call.resourceOf(args) !== call.resource) {
    throw new GatewayError('approval.invalid', {
      message: 'The approver’s arguments lead to another resource than the one that was judged.',
    });
  }
  return call.build(args);
}

function actionOf(call: RecognisedAction, { identity }: EnforceDeps): Action {
  const { tool, resource, args, mcp, hints } = call;
  const { tenantId, agentId, userId } = identity;
  return { tenantId, agentId, userId, tool, resource, args, mcp, goal: hints.goal };
}
