import { digestOf } from '../../shared/approval/action-digest.ts';
import { errorFamily } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type DeliveredApproval, sidecarSection } from '../../shared/sync/sections.ts';
import type { Exchange } from '../call/exchange.ts';
import { HeldStream } from '../call/held-stream.ts';
import type { RecognisedAction } from '../call/recognition.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import type { EnforceDeps } from './deps.ts';
import type { Judgement } from './judge.ts';

/** How a held call may go on. */
export type HoldOutcome = 'granted' | 'denied' | 'expired' | 'pending';

type Opened = Pick<DeliveredApproval, 'id' | 'expiresAtMs'>;

/**
 * Asks a human: opens the approval for exactly this action, or joins the one already open. Of the
 * same call many times at once the control plane is asked once.
 */
export function openApproval(
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
 * Waits for the human's decision to come over the bus, for `waitMs` at most and only while the
 * agent is still there. `pending` means that nobody decided yet. Rejects as soon as the call could
 * not go on whatever was decided: a kill switch was armed, the sidecar or its agent revoked.
 */
export function awaitDecision(
  { approvalId, tool, waitMs, signal }: HeldCall,
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

interface HeldCall {
  readonly approvalId: number;
  readonly tool: string;
  readonly waitMs: number;
  /** Aborted when the agent goes away. */
  readonly signal: AbortSignal;
}

type HoldDeps = Pick<EnforceDeps, 'replica' | 'identity' | 'clock' | 'stopping'>;

/** How long a call is held, and the header of its answer that confirms what its agent asked for. */
export interface HoldTime {
  readonly waitMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** The setting's time, or what the agent prefers (RFC 7240, section 4.3) within the setting's limit. */
export function holdTime(
  { waitSeconds }: Pick<RecognisedAction['hints'], 'waitSeconds'>,
  { holdMs, holdMsMax }: Pick<EnforceDeps, 'holdMs' | 'holdMsMax'>,
): HoldTime {
  if (waitSeconds === undefined) return { waitMs: holdMs, headers: {} };
  const seconds = Math.min(waitSeconds, Math.floor(holdMsMax / 1_000));
  return { waitMs: seconds * 1_000, headers: { 'Preference-Applied': `wait=${seconds}` } };
}

export function outcomeOf(approval: DeliveredApproval | undefined): HoldOutcome {
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

/** Answers an MCP call that reads progress by an event stream, from now on until it is decided. */
export function beginHeldStream(
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
  // Its refusal is an answer to the server.
  if (insteadOf !== undefined) return;
  if (!acceptsEvents(req.headers.accept ?? '')) return;
  exchange.held = new HeldStream(res, form);
  exchange.held.begin(progressToken, message, headers);
}

/** Whether an `Accept` header names event streams (RFC 9110, section 12.5.1). */
function acceptsEvents(accept: string): boolean {
  return accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';');
    const isRefused = parameters.some((one) => /^\s*q\s*=\s*0(?:\.0*)?\s*$/i.test(one));
    return type.trim().toLowerCase() === 'text/event-stream' && !isRefused;
  });
}
