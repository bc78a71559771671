import type { Clock } from '../../shared/base/clock.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Identity } from '../base/identity.ts';
import type { CallFacts, CallOutcome } from '../call/call-facts.ts';
import type { CallTrace } from '../call/tracing.ts';
import type { Replica } from '../replica/replica.ts';
import type { Spool, SpoolRecord } from '../spool/spool.ts';
import { type DecisionSink, logDecision } from '../telemetry/decision-log.ts';
import type { DecisionMetrics } from '../telemetry/decision-metrics.ts';
import { decisionRecord, outcomeRecord, plainRecord } from './call-records.ts';

interface RecordDeps extends DecisionSink {
  readonly identity: Identity;
  readonly clock: Clock;
  readonly spool: Pick<Spool, 'append'>;
  readonly metrics: DecisionMetrics;
  readonly replica: Pick<Replica, 'tenant'>;
  /** Identifies the run that counts calls for budgets. */
  readonly usage: { readonly run: string };
}

/** The part of a call's context that its record needs. */
interface RecordContext {
  readonly deps: RecordDeps;
  readonly trace: CallTrace | undefined;
  readonly facts: CallFacts;
  readonly sinceMs: number;
  /** Set to the id of the decision's event when the decision is recorded. */
  evidenceId: string | undefined;
}

interface Judged {
  readonly verdict: Verdict;
  readonly action: Action;
  readonly approval?: { readonly id: number } | undefined;
  /** Removes the call from the budget counts. */
  readonly release: () => void;
}

/** Appends a verdict to the spool. The call continues only afterwards, with the event's id. */
export async function recordDecision(
  { verdict, action, approval, release }: Judged,
  context: RecordContext,
): Promise<string> {
  const { deps, facts } = context;
  const approvalId = approval?.id;
  try {
    const usageRun = deps.usage.run;
    const setting = deps.replica.tenant.evidence;
    const record = decisionRecord({ action, verdict, facts, approvalId, usageRun, setting }, deps);
    await deps.spool.append(record);
    return reportRecorded(record, { enforced: verdict.enforced, approvalId }, context);
  } catch (error) {
    release();
    throw error;
  }
}

/** Appends the record of a call that is forwarded without a decision on its arguments. */
export async function recordPass(reasonCode: string, context: RecordContext): Promise<string> {
  const { deps, facts } = context;
  const record = plainRecord({ facts, decision: 'allow', reasonCode }, deps);
  await deps.spool.append(record);
  return reportRecorded(record, { enforced: true, approvalId: undefined }, context);
}

/**
 * Reports a recorded decision to metrics, trace and log; returns the id of the decision's event.
 */
function reportRecorded(
  record: SpoolRecord,
  { enforced, approvalId }: { readonly enforced: boolean; readonly approvalId: number | undefined },
  context: RecordContext,
): string {
  const { deps, facts, trace, sinceMs } = context;
  const { id, decision = '', reason_code: reasonCode = '' } = record.event;
  context.evidenceId = id;
  const durationMs = deps.clock.monotonic() - sinceMs;
  deps.metrics.decided(decision, reasonCode, durationMs / 1000);
  trace?.decided({ decision, reasonCode, evidenceId: id, enforced });
  logDecision(deps, {
    ...namesOf(record, facts),
    decision,
    reasonCode,
    enforced,
    evidenceId: id,
    approvalId,
    durationMs,
    traceId: trace?.traceId,
  });
  return id;
}

interface RefusedContext extends Pick<RecordContext, 'deps' | 'trace' | 'facts'> {
  /** The server name in the ClientHello of a tunnel, as sent. */
  readonly sni?: string | undefined;
}

/**
 * Records a refusal. Resolves with the event's id, or undefined if recording failed; the call is
 * refused in both cases.
 */
export async function recordRefusal(
  reasonCode: string,
  { deps, trace, facts, sni }: RefusedContext,
): Promise<string | undefined> {
  const record = plainRecord({ facts, decision: 'deny', reasonCode, sni }, deps);
  deps.metrics.decided('deny', reasonCode);
  const evidenceId = await appendRefusal(record, reasonCode, deps);
  trace?.decided({ decision: 'deny', reasonCode, evidenceId, enforced: true });
  logDecision(deps, {
    ...namesOf(record, facts),
    decision: 'deny',
    reasonCode,
    evidenceId,
    traceId: trace?.traceId,
  });
  return evidenceId;
}

/** Reports a denial without a record of its own to metrics and trace. */
export function reportThrottled({ deps, trace }: Pick<RecordContext, 'deps' | 'trace'>): void {
  const denial = { decision: 'deny', reasonCode: 'rate_limited.denials' };
  deps.metrics.decided(denial.decision, denial.reasonCode);
  trace?.decided({ ...denial, evidenceId: undefined, enforced: true });
}

async function appendRefusal(
  record: SpoolRecord,
  reasonCode: string,
  { spool, log }: Pick<RecordDeps, 'spool' | 'log'>,
): Promise<string | undefined> {
  try {
    await spool.append(record);
    return record.event.id;
  } catch (err) {
    log.error({ err, reasonCode, tool: record.event.tool }, 'a refusal could not be recorded');
    return undefined;
  }
}

/**
 * Returns the names for the log. The tool name comes from the record, where its length is bounded.
 */
function namesOf({ event }: SpoolRecord, { host, method }: CallFacts) {
  return { tool: event.tool, resource: event.resource, host, method };
}

interface PerformedCall {
  /** Id of the decision's event. */
  readonly decisionId: string;
  readonly facts: CallFacts;
  readonly outcome: CallOutcome;
  readonly durationMs: number;
}

/**
 * Appends the outcome of a call. Never rejects: the call was performed, so a failure is only
 * logged.
 */
export async function recordOutcome(performed: PerformedCall, deps: RecordDeps): Promise<void> {
  try {
    await deps.spool.append(outcomeRecord(performed, deps));
  } catch (err) {
    const { decisionId: evidenceId } = performed;
    deps.log.error({ err, evidenceId }, 'the outcome of a performed call could not be recorded');
  }
}
