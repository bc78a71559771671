import type { SpoolRecord } from '../evidence/spool.ts';
import { logDecision } from '../telemetry/decision-log.ts';
import type { EnforceDeps } from './deps.ts';
import type { Judgement } from './judge.ts';
import type { Way } from './progress.ts';
import { type CallFacts, decisionRecord, plainRecord } from './record.ts';

/** Writes a verdict to the spool; nothing goes on before that, and its id goes with all that follows. */
export async function writeDown(
  { verdict, action, approval, giveBack }: Judgement,
  facts: CallFacts,
  way: Way,
): Promise<string> {
  const { deps } = way;
  const { enforced } = verdict;
  const approvalId = approval?.id;
  try {
    const usageRun = deps.usage.run;
    const setting = deps.replica.tenant.evidence;
    const record = decisionRecord({ action, verdict, facts, approvalId, usageRun, setting }, deps);
    return await written(record, { facts, enforced, approvalId }, way);
  } catch (error) {
    giveBack();
    throw error;
  }
}

/** The same for what passes without its arguments being judged. */
export async function writeDownPass(
  { facts, reasonCode }: { readonly facts: CallFacts; readonly reasonCode: string },
  way: Way,
): Promise<string> {
  const record = plainRecord({ facts, decision: 'allow', reasonCode }, way.deps);
  return written(record, { facts }, way);
}

async function written(
  record: SpoolRecord,
  about: {
    readonly facts: CallFacts;
    readonly enforced?: boolean;
    readonly approvalId?: number | undefined;
  },
  { deps, advance, trace, sinceMs }: Way,
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

/** Resolves with the event's id, or undefined when even that cannot be written: the call is refused all the same. */
export async function recordRefusal(
  reasonCode: string,
  facts: CallFacts,
  { deps, trace, sni }: Pick<Way, 'deps' | 'trace'> & { readonly sni?: string | undefined },
): Promise<string | undefined> {
  const record = plainRecord({ facts, decision: 'deny', reasonCode, sni }, deps);
  deps.metrics.decided('deny', reasonCode);
  const evidenceId = await kept(record, reasonCode, deps);
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
export function reportThrottled({ deps, trace }: Pick<Way, 'deps' | 'trace'>): void {
  const denial = { decision: 'deny', reasonCode: 'rate_limited.denials' };
  deps.metrics.decided(denial.decision, denial.reasonCode);
  trace?.decided({ ...denial, evidenceId: undefined, enforced: true });
}

async function kept(
  record: SpoolRecord,
  reasonCode: string,
  { spool, log }: Pick<EnforceDeps, 'spool' | 'log'>,
): Promise<string | undefined> {
  try {
    await spool.append(record);
    return record.event.id;
  } catch (err) {
    log.error({ err, reasonCode, tool: record.event.tool }, 'a refusal could not be recorded');
    return undefined;
  }
}

/** The tool as the record has it, which is bounded whatever an agent calls it. */
function namesOf({ event }: SpoolRecord, { host, method }: CallFacts) {
  return { tool: event.tool, resource: event.resource, host, method };
}
