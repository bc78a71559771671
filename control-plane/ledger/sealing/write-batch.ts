import { batchRowsMax, type PreparedBatch, type PreparedRow } from './prepare-batch.ts';
import type { Queryable } from './read-state.ts';

interface Write {
  readonly batch: PreparedBatch;
  readonly treeRoot: string;
  /** Root of the tree before the batch. */
  readonly rootBefore: string;
  readonly kid: string;
  readonly jws: string;
  /** Outbox rows whose events this batch seals; the same commit deletes them. */
  readonly outboxIds: readonly string[];
  /** True if the connection has a session of its own, so that prepared statements persist. */
  readonly isPrepared: boolean;
}

/**
 * Writes a batch in one statement, which is its own transaction. The statement moves the tenant's
 * head only if the head still has the position and tree that the batch follows. It also writes the
 * rows, chain heads and signed head, and deletes outbox rows. Returns false, without an effect, if
 * another writer was first; the head's row lock serialises writers.
 */
export async function writeBatch(connection: Queryable, write: Write): Promise<boolean> {
  const { batch } = write;
  const { rows } = await connection.query<{ moved: number }>({
    ...statementFor({ size: batch.rows.length, counts: batch.tally.length > 0 }, write.isPrepared),
    values: [...headValues(write), ...batch.rows.flatMap(rowValues), ...tallyValues(batch)],
  });
  return rows[0]?.moved === 1;
}

function headValues({ batch, treeRoot, rootBefore, kid, jws, outboxIds }: Write): unknown[] {
  const { tenantId, after, rows, tree, moved, latestMs } = batch;
  return [
    tenantId,
    after,
    after + rows.length,
    tree.roots.map((root) => root.toString('hex')),
    treeRoot,
    kid,
    jws,
    outboxIds,
    [...moved.keys()],
    Array.from(moved.values(), ({ seq }) => seq),
    Array.from(moved.values(), ({ hash }) => hash),
    new Date(latestMs).toISOString(),
    rootBefore,
  ];
}

function rowValues({ sealed, columns }: PreparedRow): unknown[] {
  return [
    sealed.chainId,
    sealed.seq,
    sealed.prevHash,
    sealed.eventHash,
    sealed.canonical,
    columns.eventId,
    columns.type,
    columns.source,
    columns.agentId,
    columns.tool,
    columns.decision,
    columns.reasonCode,
    new Date(columns.occurredAtMs).toISOString(),
  ];
}

/**
 * Returns the values of the budget part. If no decision of the batch counts for a budget, there are
 * none, and the statement has no budget part.
 */
function tallyValues({ tally }: PreparedBatch): unknown[] {
  if (tally.length === 0) return [];
  return [
    tally.map(({ agentId }) => agentId),
    tally.map(({ tool }) => tool),
    tally.map(({ minute }) => minute),
    tally.map(({ source }) => source),
    tally.map(({ path }) => path),
    tally.map(({ amount }) => amount),
  ];
}

const headValueCount = 13;
const rowTypes = [
  'text',
  'bigint',
  ...Array.from({ length: 10 }, () => 'text'),
  'timestamptz',
] as const;

/**
 * Maximum number of rows of a statement that is prepared. Planning a small statement takes as long
 * as executing it.
 */
const namedSizeMax = 16;
const texts = new Map<string, string>();

interface Shape {
  /** Number of rows. */
  readonly size: number;
  /** Whether any row counts for a budget. */
  readonly counts: boolean;
}

function statementFor(
  { size, counts }: Shape,
  isPrepared: boolean,
): { readonly text: string; readonly name?: string } {
  const name = counts ? `seal_${size}_counted` : `seal_${size}`;
  const text = texts.get(name) ?? statementText({ size, counts });
  if (size <= namedSizeMax || size === batchRowsMax) texts.set(name, text);
  return isPrepared && size <= namedSizeMax ? { text, name } : { text };
}

function statementText({ size, counts }: Shape): string {
  const values = Array.from({ length: size }, (_, index) => rowText(index)).join(',');
  return `
WITH moved AS (
  UPDATE evidence_head SET position = $3::bigint, frontier = $4::text[], tree_root = $5::text
   WHERE tenant_id = $1::text AND position = $2::bigint AND tree_root = $13::text
  RETURNING tenant_id
), sealed AS (
  INSERT INTO evidence_row (tenant_id, position, chain_id, seq, prev_hash, event_hash, canonical,
    event_id, type, source, agent_id, tool, decision, reason_code, occurred_at)
  SELECT moved.tenant_id, $2::bigint + row.column1, row.column2, row.column3, row.column4,
    row.column5, row.column6, row.column7, row.column8, row.column9, row.column10, row.column11,
    row.column12, row.column13, row.column14
  FROM moved, (VALUES ${values}) AS row
), ends AS (
  INSERT INTO evidence_chain (tenant_id, chain_id, seq, event_hash)
  SELECT moved.tenant_id, chain.* FROM moved, unnest($9::text[], $10::bigint[], $11::text[]) AS chain
  ON CONFLICT (tenant_id, chain_id)
    DO UPDATE SET seq = EXCLUDED.seq, event_hash = EXCLUDED.event_hash
), signed AS (
  INSERT INTO evidence_batch (tenant_id, position, tree_root, kid, jws, latest_at)
  SELECT tenant_id, $3::bigint, $5::text, $6::text, $7::text, $12::timestamptz FROM moved
), drained AS (
  DELETE FROM event_outbox USING moved
   WHERE event_outbox.tenant_id = moved.tenant_id AND event_outbox.id = ANY($8::bigint[])
)${counts ? countedText(headValueCount + size * rowTypes.length) : ''}
SELECT count(*)::int AS moved FROM moved`;
}

/** Returns the SQL of the budget part. Its parameters come after the rows' parameters. */
function countedText(before: number): string {
  const types = ['text', 'text', 'int', 'text', 'text', 'float8'];
  const lists = types.map((type, at) => `$${before + at + 1}::${type}[]`).join(', ');
  return `, counted AS (
  INSERT INTO usage_minute (tenant_id, agent_id, tool, minute, source, path, amount, position)
  SELECT moved.tenant_id, tally.*, $3::bigint FROM moved, unnest(${lists}) AS tally
  ON CONFLICT (tenant_id, agent_id, tool, minute, source, path)
    DO UPDATE SET amount = usage_minute.amount + EXCLUDED.amount, position = EXCLUDED.position
)`;
}

/** Returns the SQL of one row: the row's index in the batch, then one parameter per column. */
function rowText(index: number): string {
  const first = headValueCount + 1 + index * rowTypes.length;
  // The casts of the first row define the column types.
  const values = rowTypes.map((type, at) => `$${first + at}${index === 0 ? `::${type}` : ''}`);
  return `(${index + 1},${values.join(',')})`;
}
