import type { Clock } from '../../shared/base/clock.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Identity } from '../base/identity.ts';
import type { CallFacts } from '../call/call-facts.ts';
import type { CallTrace } from '../call/tracing.ts';
import type { Replica } from '../replica/replica.ts';
import type { Spool, SpoolRecord } from '../spool/spool.ts';
import { type DecisionSink, logDecision } from '../telemetry/decision-log.ts';
import type { DecisionMetrics } from '../telemetry/decision-metrics.ts';
import { decisionRecord, plainRecord } from './call-records.ts';

interface RecordDeps extends DecisionSink {
  readonly identity: Identity;
  readonly clock: Clock;
  readonly spool: Pick<Spool, 'append'>;
  readonly metrics: DecisionMetrics;
  readonly replica: Pick<Replica, 'tenant'>;
  /** Names the run that counts calls for budgets. */
  readonly usage: { readonly run: string };
}

/** The part of a call's context that its record needs. */
interface RecordContext {
  readonly deps: RecordDeps;
  readonly trace: CallTrace | undefined;
  readonly sinceMs: number;
  readonly advance: (step: { readonly evidenceId: string }) => void;
}

interface Judged {
  readonly verdict: Verdict;
  readonly action: Action;
  readonly approval?: { readonly id: number } | undefined;
  /** Takes the call out of the budgets again. */
  readonly release: () => void;
}

/** Appends a verdict to the spool. The call continues only after that, under the event's id. */
export async function recordDecision(
  { verdict, action, approval, release }: Judged,
  facts: CallFacts,
  context: RecordContext,
): Promise<string> {
  const { deps } = context;
  const { enforced } = verdict;
  const approvalId = approval?.id;
  try {
    const usageRun = deps.usage.run;
    const setting = deps.replica.tenant.evidence;
    const record = decisionRecord({ action, verdict, facts, approvalId, usageRun, setting }, deps);
    return await append(record, { facts, enforced, approvalId }, context);
  } catch (error) {
    release();
    throw error;
  }
}

/** Appends the record of a call that is forwarded without a decision on its arguments. */
export async function recordPass(
  { facts, reasonCode }: { readonly facts: CallFacts; readonly reasonCode: string },
  context: RecordContext,
): Promise<string> {
  const record = plainRecord({ facts, decision: 'allow', reasonCode }, context.deps);
  return append(record, { facts }, context);
}

async function append(
  record: SpoolRecord,
  about: {
    readonly facts: CallFacts;
    readonly enforced?: boolean;
    readonly approvalId?: number | undefined;
  },
  { deps, advance, trace, sinceMs }: RecordContext,
): Promise<string> {
  await deps.spool.append(record);
  const { id, decision = '', reason_code: reasonCode = '' } = record.event;
  advance({ evidenceId: id });
  const durationMs = deps.clock.monotonic() - sinceMs;
  deps.metrics.decided(decision, reasonCode, durationMs / 1000);
  trace?.decided({ decision, reasonCode, evidenceId: id, enforced: about.enforced ?? true });
  logDecision(deps, {
    ...namesOf(record, about.facts),
    decision,
    reasonCode,
    enforced: about.enforced,
    evidenceId: id,
    approvalId: about.approvalId,
    durationMs,
    traceId: trace?.traceId,
  });
  return id;
}

/** Resolves with the event's id, or undefined if it could not be recorded; the call is refused anyway. */
export async function recordRefusal(
  reasonCode: string,
  facts: CallFacts,
  {
    deps,
    trace,
    sni,
  }: Pick<RecordContext, 'deps' | 'trace'> & { readonly sni?: string | undefined },
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

/** Metrics and trace of a denial that has no record of its own. */
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

/** Names for the log: the record's tool name has a bounded length. */
function namesOf({ event }: SpoolRecord, { host, method }: CallFacts) {
  return { tool: event.tool, resource: event.resource, host, method };
}
