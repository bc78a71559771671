import type { JsonObject } from '../../shared/json.ts';
import type { EnforceDeps } from './deps.ts';
import type { Judgement } from './judge.ts';
import type { Way } from './progress.ts';
import { type CallFacts, decisionRecord, plainRecord } from './record.ts';

/** Writes a verdict to the spool; nothing goes on before that, and its id goes with all that follows. */
export async function writeDown(
  { verdict, action, approval }: Judgement,
  facts: CallFacts,
  { deps, advance }: Way,
): Promise<string> {
  const record = decisionRecord({ action, verdict, facts, approvalId: approval?.id }, deps);
  await deps.spool.append(record);
  advance({ evidenceId: record.event.id });
  deps.metrics.decided(verdict.decision, verdict.reasonCode);
  logDecision(deps, facts, {
    decision: verdict.decision,
    reasonCode: verdict.reasonCode,
    evidenceId: record.event.id,
  });
  return record.event.id;
}

/** The same for what passes without its arguments being judged. */
export async function writeDownPass(
  {
    facts,
    reasonCode,
    data,
  }: { readonly facts: CallFacts; readonly reasonCode: string; readonly data?: JsonObject },
  { deps, advance }: Way,
): Promise<string> {
  const record = plainRecord(
    { facts, decision: 'allow', reasonCode, ...(data === undefined ? {} : { data }) },
    deps,
  );
  await deps.spool.append(record);
  advance({ evidenceId: record.event.id });
  deps.metrics.decided('allow', reasonCode);
  logDecision(deps, facts, { decision: 'allow', reasonCode, evidenceId: record.event.id });
  return record.event.id;
}

/** Resolves with the event's id, or undefined when even that cannot be written: the call is refused all the same. */
export async function recordRefusal(
  reasonCode: string,
  facts: CallFacts,
  deps: EnforceDeps,
): Promise<string | undefined> {
  const record = plainRecord({ facts, decision: 'deny', reasonCode }, deps);
  deps.metrics.decided('deny', reasonCode);
  try {
    await deps.spool.append(record);
    logDecision(deps, facts, { decision: 'deny', reasonCode, evidenceId: record.event.id });
    return record.event.id;
  } catch (error) {
    deps.log.error({ err: error, reasonCode, tool: facts.tool }, 'a refusal could not be recorded');
    return undefined;
  }
}

/** One line per decision, always with these names. */
function logDecision(
  { log }: EnforceDeps,
  { tool, host }: CallFacts,
  {
    decision,
    reasonCode,
    evidenceId,
  }: { readonly decision: string; readonly reasonCode: string; readonly evidenceId: string },
): void {
  log.info({ tool, host, decision, reason_code: reasonCode, evidence_id: evidenceId }, 'decision');
}
