import type { Action } from '../../shared/decision/action.ts';
import { mayProceed, type Verdict } from '../../shared/decision/verdict.ts';
import { type ErrorCode, type GatewayError, toGatewayError } from '../../shared/errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { recognise } from '../recognise/recognise.ts';
import type {
  RecognisedAction,
  RecognisedPass,
  RecognisedRefusal,
  RefusalForm,
} from '../recognise/recognition.ts';
import type { EnforceDeps } from './deps.ts';
import { awaitDecision, openApproval } from './hold.ts';
import { answerInternal, isInternal } from './internal-host.ts';
import { type Judgement, judge } from './judge.ts';
import { isBlocked } from './live-calls.ts';
import { perform } from './perform.ts';
import { type CallFacts, decisionRecord, plainRecord } from './record.ts';
import { type Refusal, refuse } from './refuse.ts';

/**
 * What happens to one request of the agent: understood, judged, written down, and only then
 * performed in the form that was judged, or refused. Never rejects; what cannot be decided is
 * refused.
 */
export async function enforce(exchange: Exchange, deps: EnforceDeps): Promise<void> {
  let form: RefusalForm = { kind: 'http' };
  try {
    if (isInternal(exchange)) return await answerInternal(exchange, deps.internal);
    const recognition = await recognise(exchange, deps.recognise());
    if (recognition.kind !== 'pass') form = recognition.form;
    switch (recognition.kind) {
      case 'refusal':
        return await refuseUnjudged(exchange, recognition, deps);
      case 'pass':
        return await passOn(exchange, recognition, deps);
      case 'action':
        return await enforceAction(exchange, recognition, deps);
    }
  } catch (thrown) {
    await refuseFailed(exchange, form, toGatewayError(thrown), deps);
  }
}

/** A tool call: judged on its arguments, held where a human must agree. */
async function enforceAction(
  exchange: Exchange,
  call: RecognisedAction,
  deps: EnforceDeps,
): Promise<void> {
  const { identity } = deps;
  const facts = factsOf(exchange, call.tool, call.resource);
  const action: Action = {
    tenantId: identity.tenantId,
    agentId: identity.agentId,
    userId: identity.userId,
    tool: call.tool,
    resource: call.resource,
    args: call.args,
    goal: call.hints.goal,
  };
  deps.replica.assertFresh();
  let judgement = await settle(action, call.hints.passport, deps);
  let evidenceId = await recordVerdict(judgement, facts, deps);
  if (judgement.verdict.decision === 'require_approval' && judgement.verdict.enforced) {
    const approval = judgement.approval ?? (await openApproval(judgement, deps));
    const decided = await awaitDecision(approval, exchange.signal, deps);
    if (decided.status !== 'approved' && decided.status !== 'modified') {
      return refuse(
        exchange,
        {
          form: call.form,
          approval: decided,
          evidenceId,
          ...pendingRefusal(judgement.verdict, decided.status),
        },
        deps,
      );
    }
    deps.replica.assertFresh();
    judgement = await settle(action, undefined, deps);
    evidenceId = await recordVerdict(judgement, facts, deps);
  }
  const { verdict } = judgement;
  if (!mayProceed(verdict)) {
    return refuse(exchange, { form: call.form, evidenceId, ...verdictRefusal(verdict) }, deps);
  }
  await perform(
    exchange,
    {
      outgoing: call.build(judgement.action.args),
      binding: call.binding,
      form: call.form,
      facts,
      evidenceId,
      verdict,
    },
    deps,
  );
}
