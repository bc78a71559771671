import { digestOf } from '../../shared/approval/action-digest.ts';
import { refusalDetails } from '../../shared/decision/explain.ts';
import { errorFamily } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type DeliveredApproval, sidecarSection } from '../../shared/sync/sections.ts';
import type { Exchange } from '../call/exchange.ts';
import { HeldStream } from '../call/held-stream.ts';
import type { RecognisedAction } from '../call/recognition.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import { type CallContext, decisionHeader } from './call-context.ts';
import type { EnforceDeps } from './deps.ts';
import type { Judgement } from './reach-judgement.ts';
import { answerRefusal, refuseResponse } from './refuse-call.ts';

/** A call that a human must allow. */
interface HeldCall {
  readonly call: RecognisedAction;
  readonly judgement: Judgement;
  readonly time: HoldTime;
  readonly evidenceId: string;
}

interface HoldAnswer {
  readonly outcome: HoldOutcome;
  readonly approvalId: number;
}

/** Opens an approval request, or joins an open one, and waits for the human's decision. */
export async function holdForApproval(
  { exchange, deps }: CallContext,
  { call, judgement, time, evidenceId }: HeldCall,
): Promise<HoldAnswer> {
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
    // If the agent disconnected, the grant is not consumed, because nobody waits for the response.
    return { outcome: signal.aborted ? 'pending' : outcome, approvalId: approval.id };
  } finally {
    exchange.held?.stopProgress();
    release();
  }
}

/** Answers a held call that was not granted. */
export async function answerHeld(
  context: CallContext,
  { call, judgement: { verdict }, time: { headers }, evidenceId }: HeldCall,
  { outcome, approvalId }: HoldAnswer,
): Promise<void> {
  if (call.insteadOf !== undefined) {
    return refuseResponse(context, call, { evidenceId, reasonCode: `approval.${outcome}` });
  }
  const comment = context.deps.replica.approvalById(approvalId)?.comment;
  const common = { form: call.form, approvalId, evidenceEventId: evidenceId, headers };
  if (outcome === 'pending') {
    const message = `${verdict.summary} It was not performed yet.`;
    const pending = { decision: 'require_approval', reasonCode: 'approval.pending' } as const;
    const details = refusalDetails(verdict, comment);
    return answerRefusal(context, { ...common, ...pending, message, details });
  }
  const reasonCode = outcome === 'denied' ? 'approval.denied' : 'approval.expired';
  answerRefusal(context, { ...common, reasonCode, details: refusalDetails({}, comment) });
}

/** How a hold ended. */
export type HoldOutcome = 'granted' | 'denied' | 'expired' | 'pending';

type Opened = Pick<DeliveredApproval, 'id' | 'expiresAtMs'>;

/**
 * Opens an approval for exactly this action, or joins the open one. Concurrent calls with the same
 * action share one request to the control plane.
 */
function openApproval(
  judgement: Judgement,
  deps: Pick<EnforceDeps, 'controlPlane' | 'replica' | 'openingApprovals' | 'openedApprovals'>,
): Promise<Opened> {
  const { action } = judgement;
  const digest = digestOf(action, deps.replica.tool(action.tool)?.manifestHash);
  const { openingApprovals } = deps;
  const opening =
    openingApprovals.get(digest) ??
    ask(judgement, digest, deps).finally(() => openingApprovals.delete(digest));
  openingApprovals.set(digest, opening);
  return opening;
}

async function ask(
  { action, verdict, presented }: Judgement,
  digest: string,
  { controlPlane, openedApprovals }: Pick<EnforceDeps, 'controlPlane' | 'openedApprovals'>,
): Promise<Opened> {
  try {
    const opened = await controlPlane.openApproval(action, digest, verdict, presented);
    openedApprovals.add(opened);
    return opened;
  } catch (error) {
    if (error instanceof GatewayError && errorFamily(error.code) === 'approval') throw error;
    throw new GatewayError('approval.unavailable', { cause: error });
  }
}

/**
 * Waits for the human's decision to arrive over the bus, for `waitMs` at most and only while the
 * agent is connected; `pending` means that nobody decided yet. Rejects if a kill switch is armed or
 * the sidecar or its agent is revoked, because no decision could then allow the call.
 */
export function awaitDecision(
  { approvalId, tool, waitMs, signal }: AwaitedDecision,
  deps: HoldDeps,
): Promise<HoldOutcome> {
  const { replica, identity, stopping } = deps;
  const { promise, resolve, reject } = Promise.withResolvers<HoldOutcome>();
  const giveUp = () => resolve('pending');
  const look = () => {
    try {
      assertUnblocked(tool, deps);
      const outcome = outcomeOf(replica.approvalById(approvalId));
      if (outcome !== 'pending') resolve(outcome);
    } catch (error) {
      reject(error);
    }
  };
  const timer = setTimeout(giveUp, waitMs);
  const sections = ['kill_switches', 'revocations', sidecarSection(identity.sidecarId)] as const;
  const unsubscribes = sections.map((section) => replica.onChange(section, look));
  for (const ends of [signal, stopping]) {
    if (ends.aborted) giveUp();
    ends.addEventListener('abort', giveUp);
  }
  look();
  return promise.finally(() => {
    clearTimeout(timer);
    for (const unsubscribe of unsubscribes) unsubscribe();
    for (const ends of [signal, stopping]) ends.removeEventListener('abort', giveUp);
  });
}

interface AwaitedDecision {
  readonly approvalId: number;
  readonly tool: string;
  readonly waitMs: number;
  /** Aborted when the agent disconnects. */
  readonly signal: AbortSignal;
}

type HoldDeps = Pick<EnforceDeps, 'replica' | 'identity' | 'clock' | 'stopping'>;

/** How long a call is held, and the response header that confirms the wait if the agent requested one. */
interface HoldTime {
  readonly waitMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The configured hold time, or the agent's preferred one (RFC 7240, section 4.3) up to the
 * configured limit.
 */
export function holdTime(
  { waitSeconds }: Pick<RecognisedAction['hints'], 'waitSeconds'>,
  { holdMs, holdMsMax }: Pick<EnforceDeps, 'holdMs' | 'holdMsMax'>,
): HoldTime {
  if (waitSeconds === undefined) return { waitMs: holdMs, headers: {} };
  const seconds = Math.min(waitSeconds, Math.floor(holdMsMax / 1_000));
  return { waitMs: seconds * 1_000, headers: { 'Preference-Applied': `wait=${seconds}` } };
}

function outcomeOf(approval: DeliveredApproval | undefined): HoldOutcome {
  switch (approval?.status) {
    case 'approved':
    case 'modified':
      return 'granted';
    case 'denied':
      return 'denied';
    case 'expired':
      return 'expired';
    case 'pending':
    case undefined:
      return 'pending';
  }
}

/**
 * Starts an event stream as the response to a held MCP call, if its client requested progress
 * notifications.
 */
function beginHeldStream(
  exchange: Exchange,
  { form, hints, insteadOf }: Pick<RecognisedAction, 'form' | 'hints' | 'insteadOf'>,
  {
    message,
    headers,
  }: { readonly message: string; readonly headers: Readonly<Record<string, string>> },
): void {
  const { req, res } = exchange;
  const { progressToken } = hints;
  if (form.kind !== 'mcp' || progressToken === undefined || res.destroyed) return;
  // A client's response to a server's question gets no event stream, because its refusal is sent to
  // the server and not to the client.
  if (insteadOf !== undefined) return;
  if (!acceptsEvents(req.headers.accept ?? '')) return;
  exchange.held = new HeldStream(res, form);
  exchange.held.begin(progressToken, message, headers);
}

/** True if an `Accept` header names event streams (RFC 9110, section 12.5.1). */
function acceptsEvents(accept: string): boolean {
  return accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';');
    const isRefused = parameters.some((one) => /^\s*q\s*=\s*0(?:\.0*)?\s*$/i.test(one));
    return type.trim().toLowerCase() === 'text/event-stream' && !isRefused;
  });
}
