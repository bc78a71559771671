import type { Pool } from 'pg';
import type { PreparedRow } from '../../../control-plane/ledger/sealing/prepare-batch.ts';
import { insertRows } from '../../support/ledger/insert-rows.ts';

// A lower bound for storing evidence: inserts the same rows, prepared before the measurement, as
// multi-row VALUES. Each statement is a transaction of its own. No chain, no head, no signature.

/**
 * `all`: a table with all indexes of the ledger's table. `key`: the same columns with only the
 * primary key.
 */
export type Indexes = 'all' | 'key';

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
  await insertRows(pool, `raw_${indexes}`, rows);
}
