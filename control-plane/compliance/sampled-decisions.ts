import type { Services } from '../core/services.ts';
import type { SealedText } from '../ledger/reading/sealed-text.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';
import { isFlagged } from '../ledger/sealing/dead-letter.ts';
import type { SealedDecision } from '../trials/decision-pages.ts';
import { isByPolicy } from '../trials/rejudge.ts';

const sampleMax = 1_000;
const replayedMax = 20;
const pageRows = 100;

/** A decision on a call, as far as controls look at it. */
export interface SampledDecision {
  readonly id: string;
  readonly source: string;
  readonly tool: string;
  /** The call went ahead, or may have. */
  readonly isPermitted: boolean;
  readonly isEnforced: boolean;
  /** Made where the call passes, not where an agent only asks. */
  readonly isAtEnforcement: boolean;
  readonly policyHash: string | undefined;
  readonly manifestHash: string | undefined;
}

export interface DecisionSample {
  /** The newest judged calls, newest first. */
  readonly decisions: readonly SampledDecision[];
  /** The newest ones that policies decided, whole. */
  readonly replayable: readonly SealedDecision[];
}

/**
 * The newest decisions of a tenant on calls that were judged. What passed by a binding that says
 * `passthrough`, or was refused for its form, was never judged: it holds no shape of arguments.
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
  // Flagged: whoever asked was refused, whatever was decided.
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
