import type { JsonObject } from '../../shared/base/json.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { argumentsEvidence } from '../../shared/ledger/privacy/arguments.ts';
import { recordableText } from '../../shared/ledger/privacy/recordable-text.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import { agentChain, newEvent } from '../ledger/sealing/new-event.ts';
import type { UpstreamAnswer, UpstreamOutcome } from '../platform/upstream/answer-collector.ts';

// Limits the length of a detail, because it may contain text from the upstream, such as names in
// its certificate.
const detailCharsMax = 512;

/** How an execution ended, as the evidence records it. */
export interface ExecutionEnd {
  readonly executed: UpstreamOutcome['executed'];
  readonly failure?: string | undefined;
  readonly detail?: string | undefined;
  readonly answer?: UpstreamAnswer | undefined;
  readonly durationMs?: number | undefined;
}

/**
 * Builds the event that records how an execution ended. The event keeps the size and a salted
 * digest of the response. A client that has the response can prove that it matches, but nobody can
 * guess the response from the digest.
 */
export function executionEvent(
  { action, decisionEventId, end, resultId }: ExecutionOfAction,
  clock: Services['clock'],
): { readonly event: EvidenceEvent; readonly salt: string } {
  const { answer, detail, executed } = end;
  const { digest, salt } = answerDigest(answer);
  const data = {
    decision_event_id: decisionEventId,
    detail: detail && recordableText(detail.slice(0, detailCharsMax)),
    duration_ms: end.durationMs === undefined ? undefined : Math.round(end.durationMs),
    executed,
    response_bytes: answer?.body.length,
    response_digest: digest,
    status: answer?.status ?? null,
    truncated: answer?.truncated,
  } as JsonObject;
  const fields = { ...executionFields(action, end.failure, data), id: resultId };
  return { event: newEvent(fields, clock), salt };
}

export interface ExecutionOfAction {
  readonly action: Action;
  readonly decisionEventId: string;
  readonly end: ExecutionEnd;
  /** Id of the event; default: a new one. */
  readonly resultId?: string | undefined;
}

/** Returns the fields common to all `execution.result` events. */
export function executionFields(action: Action, failure: string | undefined, data: JsonObject) {
  const { agentId, userId, tool, resource } = action;
  return {
    type: 'execution.result',
    chainId: agentChain(agentId),
    agentId,
    userId,
    tool,
    resource,
    reasonCode: failure,
    data,
  };
}

function answerDigest(answer: UpstreamAnswer | undefined) {
  const { evidence, salt } = argumentsEvidence(
    answer === undefined ? {} : { body: sha256(answer.body), status: answer.status },
  );
  return { digest: answer === undefined ? undefined : evidence.args_digest, salt };
}
