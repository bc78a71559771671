import type { Pool } from 'pg';
import type { PreparedRow } from '../../../control-plane/evidence/prepare-batch.ts';

// The least that storing evidence can cost: the same rows, prepared before the clock runs, as
// multi-row VALUES in statements that commit themselves. No chain, no head, no signature.

/** `all`: a table with every index of the ledger's. `key`: the same columns, the primary key alone. */
export type Indexes = 'all' | 'key';

const columns = `tenant_id, position, chain_id, seq, prev_hash, event_hash, canonical, event_id, type,
  source, agent_id, tool, decision, reason_code, occurred_at`;

export async function createRawTable(pool: Pool, indexes: Indexes): Promise<void> {
  const including = indexes === 'all' ? 'INCLUDING ALL' : 'INCLUDING DEFAULTS';
  await pool.query(`CREATE TABLE raw_${indexes} (LIKE evidence_row ${including})`);
  if (indexes === 'key')
    await pool.query('ALTER TABLE raw_key ADD PRIMARY KEY (tenant_id, position)');
}

export async function insertRaw(
  pool: Pool,
  indexes: Indexes,
  rows: readonly PreparedRow[],
): Promise<void> {
  const values = rows.flatMap(({ sealed, columns: column }) => [
    sealed.tenantId,
    sealed.position,
    sealed.chainId,
    sealed.seq,
    sealed.prevHash,
    sealed.eventHash,
    sealed.canonical,
    column.eventId,
    column.type,
    column.source,
    column.agentId,
    column.tool,
    column.decision,
    column.reasonCode,
    new Date(column.occurredAtMs).toISOString(),
  ]);
  const width = 15;
  const tuples = rows.map((_, row) => {
    const parameters = Array.from({ length: width }, (_, at) => `$${row * width + at + 1}`);
    return `(${parameters.join(',')})`;
  });
  await pool.query(`INSERT INTO raw_${indexes} (${columns}) VALUES ${tuples.join(',')}`, values);
}
