import { splitTarget } from '../../shared/binding/path.ts';
import { refusalDetails } from '../../shared/decision/explain.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { mayProceed, type Verdict } from '../../shared/vocabulary/verdict.ts';
import { internalHost } from '../base/internal-host-name.ts';
import type { CallFacts } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RecognisedAction, RecognisedRefusal, RefusalForm } from '../call/recognition.ts';
import type { Refusal } from '../call/refusal.ts';
import { answerInternal } from '../internal-host/internal-host.ts';
import { recognise } from '../recognise/recognise.ts';
import { orThrottled, throttled, throttledRetrySeconds } from '../records/denial-throttle.ts';
import { recordDecision, recordRefusal, reportThrottled } from '../records/record-decision.ts';
import { answerInstead } from './answer-instead.ts';
import { type CallContext, decisionHeader, factsOf, type Progress } from './call-context.ts';
import { credentialFor } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import {
  awaitDecision,
  beginHeldStream,
  type HoldOutcome,
  type HoldTime,
  holdTime,
  openApproval,
  outcomeOf,
} from './hold.ts';
import { type Judgement, judge, judgeByApproval } from './judge.ts';
import { withJudged } from './judged-details.ts';
import { passOn, watchTools } from './pass-on.ts';
import { perform } from './perform.ts';
import { refusalMessage, refuse } from './refuse.ts';

/**
 * What happens to one request of the agent: understood, judged, written down, and only then
 * performed in the form that was judged, or refused. Never rejects; what cannot be decided is
 * refused.
 */
export async function enforce(exchange: Exchange, deps: EnforceDeps): Promise<void> {
  if (exchange.host === internalHost) {
    answerInternal(exchange, deps.internal);
    return;
  }
  const facts = {
    tool: `http.${exchange.method.toLowerCase()}.${exchange.host}`,
    resource: splitTarget(exchange.target).path,
  };
  let progress: Progress = {
    form: { kind: 'http' },
    facts: factsOf(exchange, facts),
    evidenceId: undefined,
  };
  const advance = (step: Partial<Progress>) => {
    progress = { ...progress, ...step };
  };
  const trace = deps.tracing?.begin(exchange);
  try {
    const recognition = await recognise(exchange, deps.recognition());
    advance({ form: recognition.form });
    trace?.understood(recognition);
    const context = {
      deps,
      advance,
      trace,
      sinceMs: deps.clock.monotonic(),
      facts: () => progress.facts,
    };
    switch (recognition.kind) {
      case 'refusal':
        return await refuseUnjudged(exchange, { ...progress, refusal: recognition }, context);
      case 'pass':
        return await passOn(exchange, recognition, context);
      case 'action':
        return await enforceAction(exchange, recognition, context);
    }
  } catch (thrown) {
    await refuseFailed(exchange, progress, { thrown, deps, trace, facts: () => progress.facts });
  } finally {
    deps.streamOpenings.over(exchange);
    trace?.ended(exchange);
  }
}

/** A tool call: judged on its arguments, held where a human must agree. */
async function enforceAction(
  exchange: Exchange,
  call: RecognisedAction,
  context: CallContext,
): Promise<void> {
  const { deps, advance } = context;
  const facts = factsOf(exchange, call);
  advance({ facts });
  deps.replica.assertFresh();
  let judgement = await judge(actionOf(call, deps), call.hints.passport, deps);
  assertNotThrottled(judgement, deps);
  let evidenceId = await recordDecision(judgement, facts, context);
  const time = holdTime(call.hints, deps);
  let appliedHeaders = {};
  if (judgement.verdict.decision === 'require_approval' && judgement.verdict.enforced) {
    const { verdict } = judgement;
    const held = await hold(exchange, { call, judgement, time, evidenceId }, deps);
    if (held.outcome !== 'granted') {
      if (call.insteadOf !== undefined) {
        const reasonCode = `approval.${held.outcome}`;
        return answerInstead(exchange, call, { facts, evidenceId, reasonCode }, context);
      }
      const { headers } = time;
      return answerHeld(
        exchange,
        { form: call.form, verdict, evidenceId, headers, ...held },
        context,
      );
    }
    appliedHeaders = time.headers;
    deps.replica.assertFresh();
    const sinceMs = deps.clock.monotonic();
    judgement = await judgeByApproval(judgement, deps);
    evidenceId = await recordDecision(judgement, facts, { ...context, sinceMs });
  }
  const { verdict, action } = judgement;
  if (!mayProceed(verdict)) {
    const { reasonCode } = verdict;
    if (call.insteadOf !== undefined) {
      return answerInstead(exchange, call, { facts, evidenceId, reasonCode }, context);
    }
    const refusal = { form: call.form, evidenceEventId: evidenceId, ...refusalBy(verdict) };
    return answerRefusal(exchange, refusal, context);
  }
  const credential = await credentialFor(call, deps);
  await perform(
    exchange,
    {
      outgoing: outgoingFor(call, action),
      facts,
      binding: call.binding,
      credential,
      filter: watchTools(call.binding, deps),
      evidenceId,
      responseHeaders: {
        ...decisionHeader(verdict.decision, verdict.reasonCode, evidenceId),
        ...appliedHeaders,
      },
    },
    context,
  );
}

/** A call that may proceed is always recorded by itself. */
function assertNotThrottled({ verdict, release }: Judgement, { denials }: EnforceDeps): void {
  if (mayProceed(verdict) || denials.admit(verdict.reasonCode)) return;
  release();
  throw throttled(verdict.reasonCode);
}

/** An approver may change arguments, and not by them what the call is about. */
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

/** Asks a human, or joins a request that already waits, and waits for the answer. */
async function hold(
  exchange: Exchange,
  { call, judgement, time, evidenceId }: HeldCall,
  deps: EnforceDeps,
): Promise<{ readonly outcome: HoldOutcome; readonly approvalId: number }> {
  const known = outcomeOf(judgement.approval);
  const { signal } = exchange.abort;
  if (judgement.approval !== undefined && known !== 'pending') {
    return { outcome: signal.aborted ? 'pending' : known, approvalId: judgement.approval.id };
  }
  const release = deps.held.acquire();
  try {
    const approval = judgement.approval ?? (await openApproval(judgement, deps));
    const { waitMs, headers } = time;
    const { decision, reasonCode } = judgement.verdict;
    beginHeldStream(exchange, call, {
      message: `Waiting for a human decision (approval ${approval.id}).`,
      headers: { ...decisionHeader(decision, reasonCode, evidenceId), ...headers },
    });
    const held = { approvalId: approval.id, tool: judgement.action.tool, waitMs, signal };
    const outcome = await awaitDecision(held, deps);
    // A grant is not spent on an answer that nobody waits for.
    return { outcome: signal.aborted ? 'pending' : outcome, approvalId: approval.id };
  } finally {
    exchange.held?.stopProgress();
    release();
  }
}

interface HeldCall {
  readonly call: RecognisedAction;
  readonly judgement: Judgement;
  readonly time: HoldTime;
  readonly evidenceId: string;
}

function answerHeld(
  exchange: Exchange,
  held: {
    readonly form: RefusalForm;
    readonly verdict: Verdict;
    readonly evidenceId: string;
    readonly outcome: HoldOutcome;
    readonly approvalId: number;
    readonly headers: Readonly<Record<string, string>>;
  },
  context: CallContext,
): void {
  const { form, evidenceId, approvalId, outcome, verdict, headers } = held;
  const comment = context.deps.replica.approvalById(approvalId)?.comment;
  const common = { form, approvalId, evidenceEventId: evidenceId, headers };
  if (outcome === 'pending') {
    const message = `${verdict.summary} It was not performed yet.`;
    const pending = { decision: 'require_approval', reasonCode: 'approval.pending' } as const;
    const details = refusalDetails(verdict, comment);
    answerRefusal(exchange, { ...common, ...pending, message, details }, context);
    return;
  }
  const reasonCode = outcome === 'denied' ? 'approval.denied' : 'approval.expired';
  answerRefusal(exchange, { ...common, reasonCode, details: refusalDetails({}, comment) }, context);
}

function answerRefusal({ res, held }: Exchange, refusal: Refusal, context: FailedContext): void {
  context.trace?.refused(refusal);
  const told = withJudged(refusal, context);
  if (held === undefined) refuse(res, told);
  else held.end(refusalMessage(told));
}

function refusalBy(verdict: Verdict): Omit<Refusal, 'form'> {
  const { decision, reasonCode, summary, nextSteps } = verdict;
  const details = refusalDetails(verdict);
  return { decision, reasonCode, message: summary, nextSteps, details };
}

/** A request that could not be understood as exactly one call. */
async function refuseUnjudged(
  exchange: Exchange,
  { refusal, facts }: Progress & { readonly refusal: RecognisedRefusal },
  context: CallContext,
): Promise<void> {
  const { code, message, form, cause } = refusal;
  if (cause !== undefined) logUnexpected(cause, facts, context.deps);
  if (!context.deps.denials.admit(code)) throw throttled(code);
  const evidenceEventId = await recordRefusal(code, facts, context);
  answerRefusal(exchange, { form, reasonCode: code, message, evidenceEventId }, context);
}

type FailedContext = Pick<CallContext, 'deps' | 'trace' | 'facts'>;

/** Anything that went wrong before an answer began: denied for its own reason, and recorded. */
async function refuseFailed(
  exchange: Exchange,
  { form, facts, evidenceId }: Progress,
  { thrown, ...context }: FailedContext & { readonly thrown: unknown },
): Promise<void> {
  const failure = toGatewayError(thrown);
  if (failure.code === 'internal.unexpected') logUnexpected(thrown, facts, context.deps);
  // A call that was allowed is recorded to its end.
  const error = evidenceId === undefined ? orThrottled(failure, context.deps) : failure;
  const { code: reasonCode, message } = error;
  if (reasonCode === 'rate_limited.denials') {
    const retryAfterSeconds = throttledRetrySeconds;
    reportThrottled(context);
    return answerRefusal(exchange, { form, reasonCode, message, retryAfterSeconds }, context);
  }
  const recorded = evidenceId ?? (await recordRefusal(reasonCode, facts, context));
  if (evidenceId !== undefined && error.kind.isOutcome !== true) {
    await recordRefusal(reasonCode, facts, context);
  }
  answerRefusal(exchange, { form, reasonCode, message, evidenceEventId: recorded }, context);
}

function logUnexpected(thrown: unknown, { host, method }: CallFacts, { log }: EnforceDeps): void {
  log.error({ ...causeOf(thrown), host, method }, 'a call failed unexpectedly');
}

/** What an exception was and where it came from, for the log. */
interface Cause {
  readonly error: string;
  readonly at: readonly string[];
}

const framesMax = 8;

/**
 * The kind of an exception and its frames, never its message: parsers and engines quote in it what
 * they were given, which here are the arguments of a call.
 */
function causeOf(thrown: unknown): Cause {
  if (!(thrown instanceof Error)) return { error: typeof thrown, at: [] };
  const frames = (thrown.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { error: thrown.name, at: frames.slice(0, framesMax).map((line) => line.trim()) };
}
