import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import type { JsonObject } from '../../shared/base/json.ts';
import { decisionEvidence } from '../../shared/decision/decision-evidence.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { ArgumentsSetting } from '../../shared/ledger/privacy/arguments-setting.ts';
import { recordableText } from '../../shared/ledger/privacy/recordable-text.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Identity } from '../base/identity.ts';
import type { CallFacts, CallOutcome } from '../call/call-facts.ts';
import type { ToolReport } from '../mcp/live-drift.ts';
import type { SpoolRecord } from '../spool/spool.ts';
import type { DenialSummary } from './denial-throttle.ts';

// The limits of the control plane (shared/contract/base/fields.ts).
const toolCharsMax = 256;
const resourceCharsMax = 1024;
// The detail may quote an upstream, for example the names of a certificate.
const detailCharsMax = 512;

interface RecordSource {
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
    usageRun,
    setting,
  }: {
    readonly action: Action;
    readonly verdict: Verdict;
    readonly facts: CallFacts;
    readonly approvalId?: number | undefined;
    /** Identifies the run that counts the call for budgets. */
    readonly usageRun: string;
    /** How much of the arguments the tenant keeps. */
    readonly setting?: ArgumentsSetting | undefined;
  },
  { identity, clock }: RecordSource,
): SpoolRecord {
  return decisionEvidence({
    action,
    verdict,
    source: `sidecar:${identity.sidecarId}`,
    chainId: `agent:${identity.agentId}`,
    nowMs: clock.now(),
    userId: identity.userId,
    tool: recordedTool(facts.tool),
    resource: recordable(facts.resource, resourceCharsMax),
    environment: identity.environment,
    approvalId,
    usageRun,
    setting,
    host: facts.host,
    method: facts.method,
  });
}

/**
 * The record of a decision that ignored arguments: a refusal of a malformed request, or a forwarded
 * message.
 */
export function plainRecord(
  {
    facts,
    decision,
    reasonCode,
    sni,
  }: {
    readonly facts: CallFacts;
    readonly decision: 'allow' | 'deny';
    readonly reasonCode: string;
    readonly sni?: string | undefined;
  },
  source: RecordSource,
): SpoolRecord {
  const { host, method } = facts;
  const data = { host, method, ...(sni && { sni: recordable(sni, detailCharsMax) }) };
  return { event: eventOf('decision', source, { facts, decision, reasonCode, data }) };
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
  source: RecordSource,
): SpoolRecord {
  const data = {
    credential: outcome.credential,
    decision_event_id: decisionId,
    detail: outcome.detail && recordable(outcome.detail, detailCharsMax),
    duration_ms: Math.round(durationMs),
    request_bytes: outcome.requestBytes,
    response_bytes: outcome.responseBytes,
    sni: outcome.sni && recordable(outcome.sni, detailCharsMax),
    status: outcome.status ?? null,
  } as JsonObject;
  const { failure } = outcome;
  return { event: eventOf('execution.result', source, { facts, reasonCode: failure, data }) };
}

/** The record of a tool that its server renamed, or describes differently than approved. */
export function toolReportRecord(report: ToolReport, source: RecordSource): SpoolRecord {
  const { tool, observed } = report;
  const facts = { tool, resource: `tool:${tool}`, host: '', method: '' };
  if (report.kind === 'renamed') {
    const data = { observed_surface_hash: observed, renamed_from: report.renamedFrom };
    return { event: eventOf('tool.renamed', source, { facts, data }) };
  }
  const data = {
    approved_surface_hash: report.approved,
    // Recorded as text, because the depth and the numbers of a server's schema may exceed the
    // ledger's limits.
    ...(report.surface === undefined ? {} : { observed_surface: report.surface }),
    observed_surface_hash: observed,
  };
  const reasonCode = 'tool.manifest_changed';
  return { event: eventOf('tool.drifted', source, { facts, reasonCode, data }) };
}

/** The record that summarises denied calls without a record of their own. */
export function denialSummaryRecord(
  { sinceMs, total, counts }: DenialSummary,
  { identity, clock }: RecordSource,
): SpoolRecord {
  const now = clock.now();
  const reasons = [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    event: {
      agent_id: identity.agentId,
      chain_id: `agent:${identity.agentId}`,
      data: {
        denied: reasons.map(([reasonCode, count]) => ({ count, reason_code: reasonCode })),
        since: new Date(sinceMs).toISOString(),
        total,
      },
      id: newId('ev', now),
      occurred_at: new Date(now).toISOString(),
      reason_code: 'rate_limited.denials',
      source: `sidecar:${identity.sidecarId}`,
      type: 'sidecar.throttled',
      user_id: identity.userId,
    },
  };
}

interface Happening {
  readonly facts: CallFacts;
  readonly decision?: string;
  readonly reasonCode?: string | undefined;
  readonly data: JsonObject;
}

/** Members are in canonical order, so that serialising the event need not sort them. */
function eventOf(
  type: string,
  { identity, clock }: RecordSource,
  { facts, decision, reasonCode, data }: Happening,
): EvidenceEvent {
  const now = clock.now();
  return {
    agent_id: identity.agentId,
    chain_id: `agent:${identity.agentId}`,
    data,
    decision,
    id: newId('ev', now),
    occurred_at: new Date(now).toISOString(),
    reason_code: reasonCode,
    resource: recordable(facts.resource, resourceCharsMax),
    source: `sidecar:${identity.sidecarId}`,
    tool: recordedTool(facts.tool),
    type,
    user_id: identity.userId,
  };
}

/** A tool's name as it is stored in the ledger. */
export function recordedTool(tool: string): string {
  return recordable(tool, toolCharsMax);
}

/**
 * Converts any text from an agent to a text that the ledger accepts, because an event that the
 * ledger refuses would block all later events.
 */
function recordable(text: string, charsMax: number): string {
  const plain = recordableText(text.slice(0, charsMax));
  return plain === '' ? '-' : plain;
}
