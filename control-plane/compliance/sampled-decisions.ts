import type { Services } from '../core/services.ts';
import type { SealedText } from '../ledger/reading/sealed-text.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';
import { isFlagged } from '../ledger/sealing/dead-letter-flag.ts';
import type { SealedDecision } from '../trials/decision-pages.ts';
import { isByPolicy } from '../trials/rejudge.ts';

const sampleMax = 1_000;
const replayedMax = 20;
const pageRows = 100;

/** The fields of a call's decision that the controls read. */
export interface SampledDecision {
  readonly id: string;
  readonly source: string;
  readonly tool: string;
  /** The call was forwarded, or may have been. */
  readonly isPermitted: boolean;
  readonly isEnforced: boolean;
  /** The decision was made at an enforcement point, not by preflight. */
  readonly isAtEnforcement: boolean;
  readonly policyHash: string | undefined;
  readonly manifestHash: string | undefined;
}

export interface DecisionSample {
  /** Decisions on the newest judged calls, newest first. */
  readonly decisions: readonly SampledDecision[];
  /** The newest decisions that a policy determined, with all fields. */
  readonly replayable: readonly SealedDecision[];
}

/**
 * Returns the newest decisions of a tenant on judged calls. Skips passthrough records and malformed
 * requests, because they were not judged and have no shape of arguments.
 */
export async function sampleDecisions(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
): Promise<DecisionSample> {
  const decisions: SampledDecision[] = [];
  const replayable: SealedDecision[] = [];
  let read = 0;
  for (let before = Number.MAX_SAFE_INTEGER; read < sampleMax; ) {
    const { rows } = await pool.query<[position: string, canonical: string]>({
      text: statement,
      values: [tenantId, before],
      rowMode: 'array',
    });
    for (const [, canonical] of rows) {
      const event = readSealed(canonical);
      if (event.data.args_shape === undefined) continue;
      decisions.push(sampled(event));
      const isWanted = replayable.length < replayedMax && event.data.policy_hash !== undefined;
      if (isWanted && isByPolicy(event)) replayable.push(event);
    }
    read += rows.length;
    before = Number(rows.at(-1)?.[0] ?? 0);
    if (rows.length < pageRows) break;
  }
  return { decisions, replayable };
}

const statement = `SELECT position, canonical FROM evidence_row
  WHERE tenant_id = $1 AND type = 'decision' AND position < $2
  ORDER BY position DESC LIMIT ${pageRows}`;

function sampled(event: SealedText): SampledDecision {
  const { id, source, tool = '', decision, data } = event;
  const isEnforced = data.enforced !== false;
  // The dead-letter flag means that the first attempt to seal the event failed. The call was then
  // refused, even if the decision allowed it.
  const isRefusal = isFlagged(event);
  return {
    id,
    source,
    tool,
    isPermitted: !isRefusal && (decision === 'allow' || decision === 'warn' || !isEnforced),
    isEnforced,
    isAtEnforcement: source !== 'control-plane' || data.point === 'enforcement',
    policyHash: textOf(data.policy_hash),
    manifestHash: textOf(data.manifest_hash),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
