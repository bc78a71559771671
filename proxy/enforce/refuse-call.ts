import { refusalDetails } from '../../shared/decision/explain.ts';
import { toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { RecognisedAction, RecognisedRefusal } from '../call/recognition.ts';
import type { Refusal } from '../call/refusal.ts';
import { refusedError } from '../mcp/refusal.ts';
import { orThrottled, throttled, throttledRetrySeconds } from '../records/denial-throttle.ts';
import { recordRefusal, reportThrottled } from '../records/record-decision.ts';
import { type CallContext, decisionHeader } from './call-context.ts';
import { credentialFor } from './credential.ts';
import { withJudged } from './judged-details.ts';
import { perform } from './perform.ts';
import { refusalMessage, writeRefusal } from './write-refusal.ts';

/** Answers a call with a refusal, on the call's held stream if there is one. */
export function answerRefusal(context: CallContext, refusal: Refusal): void {
  const { res, held } = context.exchange;
  context.trace?.refused(refusal);
  const detailed = withJudged(refusal, context);
  if (held === undefined) writeRefusal(res, detailed);
  else held.end(refusalMessage(detailed));
}

/** Refuses a request that could not be understood as exactly one call. */
export async function refuseUnjudged(
  context: CallContext,
  { code, message, form, cause }: RecognisedRefusal,
): Promise<void> {
  if (cause !== undefined) logUnexpected(cause, context);
  if (!context.deps.denials.admit(code)) throw throttled(code);
  const evidenceEventId = await recordRefusal(code, context);
  answerRefusal(context, { form, reasonCode: code, message, evidenceEventId });
}

interface Refused {
  readonly verdict: Verdict;
  readonly evidenceId: string;
}

/** Refuses a call because of its verdict. */
export async function refuseJudged(
  context: CallContext,
  call: RecognisedAction,
  { verdict, evidenceId }: Refused,
): Promise<void> {
  const { decision, reasonCode, summary, nextSteps } = verdict;
  if (call.insteadOf !== undefined) {
    return refuseResponse(context, call, { evidenceId, reasonCode });
  }
  const details = refusalDetails(verdict);
  const refusal = { decision, reasonCode, message: summary, nextSteps, details };
  answerRefusal(context, { form: call.form, evidenceEventId: evidenceId, ...refusal });
}

/**
 * Refuses a client's response to a question of its MCP server. The server receives an error
 * instead, because it would otherwise wait for the response forever.
 */
export async function refuseResponse(
  context: CallContext,
  call: RecognisedAction,
  { evidenceId, reasonCode }: { readonly evidenceId: string; readonly reasonCode: string },
): Promise<void> {
  const { insteadOf } = call;
  if (insteadOf === undefined) throw new TypeError('this call is not a response to a server');
  const message = `Denied: ${reasonCode}. Sallyport refused the client’s answer (evidence ${evidenceId}).`;
  await perform(context, {
    outgoing: insteadOf({ code: refusedError, message }),
    binding: call.binding,
    credential: await credentialFor(call, context.deps),
    evidenceId,
    responseHeaders: decisionHeader('deny', reasonCode, evidenceId),
  });
}

/**
 * Refuses a call that failed before its response began, with the failure as the reason, and records
 * the refusal.
 */
export async function refuseFailed(context: CallContext, thrown: unknown): Promise<void> {
  const { form, evidenceId, deps } = context;
  const failure = toGatewayError(thrown);
  if (failure.code === 'internal.unexpected') logUnexpected(thrown, context);
  // An allowed call already has a record, so its failure is never throttled.
  const error = evidenceId === undefined ? orThrottled(failure, deps) : failure;
  const { code: reasonCode, message } = error;
  if (reasonCode === 'rate_limited.denials') {
    const retryAfterSeconds = throttledRetrySeconds;
    reportThrottled(context);
    return answerRefusal(context, { form, reasonCode, message, retryAfterSeconds });
  }
  const recorded = evidenceId ?? (await recordRefusal(reasonCode, context));
  if (evidenceId !== undefined && error.kind.isOutcome !== true) {
    await recordRefusal(reasonCode, context);
  }
  answerRefusal(context, { form, reasonCode, message, evidenceEventId: recorded });
}

function logUnexpected(thrown: unknown, { facts, deps }: CallContext): void {
  const { host, method } = facts;
  deps.log.error({ ...causeOf(thrown), host, method }, 'a call failed unexpectedly');
}

/** The type of an exception and its stack frames, for the log. */
interface Cause {
  readonly error: string;
  readonly at: readonly string[];
}

const framesMax = 8;

/**
 * Returns the type and frames of an exception. Omits its message, because parsers quote their input
 * (here, the call's arguments) in messages.
 */
function causeOf(thrown: unknown): Cause {
  if (!(thrown instanceof Error)) return { error: typeof thrown, at: [] };
  const frames = (thrown.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { error: thrown.name, at: frames.slice(0, framesMax).map((line) => line.trim()) };
}
