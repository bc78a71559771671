import type { Pool } from 'pg';
import type { StoredDecision } from '../../shared/ledger/privacy/known-context.ts';
import { lastPositionBefore } from '../ledger/reading/event-rows.ts';
import { headPosition } from '../ledger/reading/read-ledger.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';

/** A decision, read from its sealed event. */
export interface SealedDecision extends StoredDecision {
  readonly id: string;
  readonly chain_id: string;
  readonly position: number;
  readonly seq: number;
  readonly occurred_at: string;
  readonly decision?: string | undefined;
  readonly reason_code?: string | undefined;
}

export interface Stretch {
  /** Decisions at or after this time. */
  readonly from?: string | undefined;
  /** Decisions at or before this time. */
  readonly to?: string | undefined;
  /** Only decisions sealed after this position. */
  readonly after?: number | undefined;
}

interface DecisionPage {
  readonly decisions: readonly SealedDecision[];
  /** Position up to which everything has been read. */
  readonly upTo: number;
}

const pageRows = 200;
/**
 * Number of positions that one statement reads. It keeps a statement fast even if its filter
 * matches nothing.
 */
const pagePositions = 5_000;

/**
 * Reads a tenant's decisions in ascending position, one page at a time, up to the position where
 * the ledger ended at the start. A page may be empty, so that the caller can stop between pages.
 */
export async function* decisionPages(
  pool: Pool,
  tenantId: string,
  { from, to, after = 0 }: Stretch,
): AsyncGenerator<DecisionPage> {
  const since = from === undefined ? 0 : await lastPositionBefore(pool, tenantId, from);
  const end = await headPosition(pool, tenantId);
  for (let done = Math.max(since, after); done < end; ) {
    const upTo = Math.min(done + pagePositions, end);
    const { rows } = await pool.query<[canonical: string]>({
      text: statement,
      values: [tenantId, done, upTo, from ?? null, to ?? null],
      rowMode: 'array',
    });
    const decisions = rows.map(([canonical]) => readSealed(canonical));
    done = rows.length < pageRows ? upTo : (decisions.at(-1)?.position ?? upTo);
    yield { decisions, upTo: done };
  }
}

const statement = `SELECT canonical FROM evidence_row
  WHERE tenant_id = $1 AND type = 'decision' AND position > $2 AND position <= $3
    AND ($4::timestamptz IS NULL OR occurred_at >= $4)
    AND ($5::timestamptz IS NULL OR occurred_at <= $5)
  ORDER BY position LIMIT ${pageRows}`;
