import type { Pool } from 'pg';
import type { PreparedRow } from '../../../control-plane/ledger/sealing/prepare-batch.ts';

const columns = [
  'tenant_id',
  'position',
  'chain_id',
  'seq',
  'prev_hash',
  'event_hash',
  'canonical',
  'event_id',
  'type',
  'source',
  'agent_id',
  'tool',
  'decision',
  'reason_code',
  'occurred_at',
] as const;

/** Inserts prepared rows as one multi-row VALUES. Neither updates heads nor signs. */
export async function insertRows(
  pool: Pool,
  table: string,
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
  const tuples = rows.map((_, row) => {
    const first = row * columns.length + 1;
    return `(${columns.map((_name, at) => `$${first + at}`).join(',')})`;
  });
  await pool.query(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES ${tuples.join(',')}`,
    values,
  );
}
