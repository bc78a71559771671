import type { Clock } from '../../shared/clock.ts';
import type { Action } from '../../shared/decision/action.ts';
import type { Verdict } from '../../shared/decision/verdict.ts';
import { argumentsEvidence } from '../../shared/evidence/arguments.ts';
import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import { recordableText } from '../../shared/evidence/recordable-text.ts';
import { newId } from '../../shared/ids.ts';
import type { JsonObject } from '../../shared/json.ts';
import type { SpoolRecord } from '../evidence/spool.ts';
import type { Identity } from '../identity.ts';
import type { Outcome } from '../upstream/forwarding.ts';

/** What is written down about a call, apart from the verdict on it. */
export interface CallFacts {
  readonly tool: string;
  readonly resource: string;
  readonly host: string;
  readonly method: string;
}

/** How a performed call ended. */
export type CallOutcome = Omit<Outcome, 'failure'> & {
  readonly failure?: Outcome['failure'] | 'runtime.kill_switch';
};

// As the control plane takes them (shared/contract/fields.ts).
const toolCharsMax = 256;
const resourceCharsMax = 1024;

interface Witness {
  readonly identity: Identity;
  readonly clock: Clock;
}

/** The record of a decision on an action. */
export function decisionRecord(
  {
    action,
    verdict,
    facts,
    approvalId,
  }: {
    readonly action: Action;
    readonly verdict: Verdict;
    readonly facts: CallFacts;
    readonly approvalId?: number | undefined;
  },
  witness: Witness,
): SpoolRecord {
  const { evidence, salt } = argumentsEvidence(action.args);
  const event = {
    ...eventOf('decision', witness, facts),
    decision: verdict.decision,
    reason_code: verdict.reasonCode,
    data: {
      ...evidence,
      ...factsData(facts),
      acted_for: action.userId === witness.identity.userId ? undefined : action.userId,
      approval_id: approvalId,
      enforced: verdict.enforced,
      goal: action.goal,
      manifest_hash: verdict.toolManifestHash,
      matched_rules: verdict.matchedRules,
      mode: verdict.mode,
      observed: verdict.observed.length === 0 ? undefined : [...verdict.observed],
      passport_jti: verdict.passportJti,
      policy_hash: verdict.policyHash,
      risk_tier: verdict.riskTier,
    } as JsonObject,
  };
  return { event, salt };
}

/** The record of what was decided without looking at arguments: refusals of form, and passes. */
export function plainRecord(
  {
    facts,
    decision,
    reasonCode,
    data,
  }: {
    readonly facts: CallFacts;
    readonly decision: 'allow' | 'deny';
    readonly reasonCode: string;
    readonly data?: JsonObject;
  },
  witness: Witness,
): SpoolRecord {
  const event = eventOf('decision', witness, facts);
  return {
    event: { ...event, decision, reason_code: reasonCode, data: { ...factsData(facts), ...data } },
  };
}

/** The record of how a performed call ended. */
export function outcomeRecord(
  {
    decisionId,
    facts,
    outcome,
    durationMs,
  }: {
    readonly decisionId: string;
    readonly facts: CallFacts;
    readonly outcome: CallOutcome;
    readonly durationMs: number;
  },
  witness: Witness,
): SpoolRecord {
  const event = eventOf('execution.result', witness, facts);
  return {
    event: {
      ...event,
      ...(outcome.failure === undefined ? {} : { reason_code: outcome.failure }),
      data: {
        decision_event_id: decisionId,
        detail: outcome.detail,
        duration_ms: Math.round(durationMs),
        response_bytes: outcome.responseBytes,
        status: outcome.status ?? null,
      },
    },
  };
}

/** The record of a tool whose server describes it otherwise than was approved. */
export function driftRecord(
  {
    tool,
    approved,
    observed,
  }: { readonly tool: string; readonly approved: string; readonly observed: string },
  witness: Witness,
): SpoolRecord {
  const facts = { tool, resource: `tool:${tool}`, host: '', method: '' };
  const event = eventOf('tool.drifted', witness, facts);
  const data = { approved_surface_hash: approved, observed_surface_hash: observed };
  return { event: { ...event, reason_code: 'tool.manifest_changed', data } };
}

function eventOf(type: string, { identity, clock }: Witness, facts: CallFacts): EvidenceEvent {
  const now = clock.now();
  return {
    id: newId('ev', now),
    type,
    chain_id: `agent:${identity.agentId}`,
    occurred_at: new Date(now).toISOString(),
    source: `sidecar:${identity.sidecarId}`,
    agent_id: identity.agentId,
    user_id: identity.userId,
    tool: recordable(facts.tool, toolCharsMax),
    resource: recordable(facts.resource, resourceCharsMax),
    data: {},
  };
}

/**
 * A text as the ledger takes it, whatever an agent wrote: one event that is refused there would
 * hold up all that come after it.
 */
function recordable(text: string, charsMax: number): string {
  const plain = recordableText(text.slice(0, charsMax));
  return plain === '' ? '-' : plain;
}

function factsData(facts: CallFacts): JsonObject {
  return { host: facts.host, method: facts.method };
}
