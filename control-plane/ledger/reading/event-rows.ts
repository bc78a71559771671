import type { Pool } from 'pg';
import { queryPrepared } from '../../platform/store/prepared-statement.ts';
import type { ReadCursor } from './cursor.ts';
import type { EventFilter } from './event-filter.ts';
import { boundByBytes, pageBytesMax } from './page-bytes.ts';

export interface EventsRead {
  readonly filter: EventFilter;
  /** Row to resume after; undefined: read from the beginning. */
  readonly after: ReadCursor | undefined;
  /** Last position to read. */
  readonly upTo?: number | undefined;
  readonly limit: number;
  /** Size limit of the page: the row whose text reaches it is the page's last row. */
  readonly bytesMax?: number | undefined;
  /** Additional SQL condition, for which a partial index exists. */
  readonly among?: string | undefined;
}

export type EventRow = [string, string, string, string, string, string, Date, found: string];

export interface EventRows {
  readonly rows: readonly EventRow[];
  /** True if the limit or the byte size ended the page, so that more rows may follow. */
  readonly isFull: boolean;
}

/**
 * Reads up to `limit` rows in position order, or fewer if the rows are large. If the filter has a
 * latest time, the rows before the first event after that time are read without comparing times;
 * the remaining rows are read through the time index. Therefore, a query for a narrow period does
 * not read the ledger to its end.
 */
export async function readEventRows(
  pool: Pool,
  tenantId: string,
  read: EventsRead,
): Promise<EventRows> {
  const { filter, upTo = Number.MAX_SAFE_INTEGER, limit } = read;
  const { fromMs, toMs } = filter;
  const since = fromMs === undefined ? 0 : await lastPositionBefore(pool, tenantId, iso(fromMs));
  const start = Math.max(since, read.after?.position ?? 0);
  if (toMs === undefined) return readStretch(pool, tenantId, { read, start });
  const lateStart = Math.min(upTo, await lastPositionBefore(pool, tenantId, iso(toMs + 1)));
  const untilLate = { ...read, filter: { ...filter, toMs: undefined }, upTo: lateStart };
  const { rows, isFull } =
    start < lateStart ? await readStretch(pool, tenantId, { read: untilLate, start }) : noRows;
  if (isFull) return { rows, isFull };
  const bytesMax = Math.max(1, (read.bytesMax ?? pageBytesMax) - bytesOf(rows));
  const rest = { ...read, upTo, limit: limit - rows.length, bytesMax };
  const late = await readLate(pool, tenantId, rest, Math.max(start, lateStart));
  return { rows: [...rows, ...late.rows], isFull: late.isFull };
}

const noRows: EventRows = { rows: [], isFull: false };

function pageOf(rows: readonly EventRow[], limit: number): EventRows {
  return { rows, isFull: rows.length === limit || rows.length < Number(rows[0]?.[7] ?? 0) };
}

function bytesOf(rows: readonly EventRow[]): number {
  return rows.reduce((sum, row) => sum + Buffer.byteLength(row[5]), 0);
}

const columns = 'position, chain_id, seq, prev_hash, event_hash, canonical, sealed_at';

async function readStretch(
  pool: Pool,
  tenantId: string,
  { read, start }: { readonly read: EventsRead; readonly start: number },
): Promise<EventRows> {
  const { filter, after } = read;
  const chainId = filter.equalities.find(({ column }) => column === 'chain_id')?.value;
  const known =
    chainId === undefined || start !== after?.position ? undefined : after.seqIn(chainId);
  const seq =
    chainId === undefined
      ? undefined
      : (known ?? (await lastSeqUpTo(pool, tenantId, { chainId, position: start })));
  const { text, values } = eventsStatement(tenantId, read, { position: start, seq });
  const { rows } = await pool.query<EventRow>({ text, values: [...values], rowMode: 'array' });
  return pageOf(rows, read.limit);
}

/**
 * Reads late events: they occurred within the period, but were sealed after an event that occurred
 * after the period. There are usually none.
 */
async function readLate(
  pool: Pool,
  tenantId: string,
  read: EventsRead,
  start: number,
): Promise<EventRows> {
  const { text, values } = lateStatement(tenantId, read, start);
  const { rows } = await pool.query<[string]>({ text, values: [...values], rowMode: 'array' });
  if (rows.length === 0) return noRows;
  const page = `SELECT ${columns} FROM evidence_row
    WHERE tenant_id = $1 AND position = ANY($2::bigint[])`;
  const { bytesMax } = read;
  const found = await pool.query<EventRow>({
    text: boundByBytes({ columns, rows: page, order: 'position', bytesMax }),
    values: [tenantId, rows.map(([position]) => position)],
    rowMode: 'array',
  });
  return pageOf(found.rows, read.limit);
}

const iso = (ms: number) => new Date(ms).toISOString();

// Binary search over batches. `latest_at` never decreases from one batch to the next.
const positionSearch = {
  name: 'search-position',
  text: `
WITH RECURSIVE search AS (
  SELECT 0::bigint AS low, position AS high FROM evidence_head WHERE tenant_id = $1
  UNION ALL
  SELECT CASE WHEN batch.latest_at < $2::timestamptz THEN batch.position ELSE low END,
         CASE WHEN batch.latest_at < $2::timestamptz THEN high ELSE (low + high + 1) / 2 - 1 END
    FROM search LEFT JOIN LATERAL (
      SELECT position, latest_at FROM evidence_batch
       WHERE tenant_id = $1 AND position BETWEEN (low + high + 1) / 2 AND high
       ORDER BY position LIMIT 1) AS batch ON true
   WHERE low < high
)
SELECT max(low) AS position FROM search`,
};

/** Returns the last position up to which every event occurred before `time`. */
export async function lastPositionBefore(
  pool: Pool,
  tenantId: string,
  time: string,
): Promise<number> {
  const values = [tenantId, time];
  const [found] = await queryPrepared<{ position: string | null }>(pool, positionSearch, values);
  return Number(found?.position ?? 0);
}

interface Start {
  readonly position: number;
  /** Seq to read after; undefined if several chains are read. */
  readonly seq: number | undefined;
}

const seqSearch = {
  name: 'search-seq',
  text: `
WITH RECURSIVE search AS (
  SELECT 0::bigint AS low, seq AS high FROM evidence_chain WHERE tenant_id = $1 AND chain_id = $2
  UNION ALL
  SELECT CASE WHEN found.position <= $3::bigint THEN found.seq ELSE low END,
         CASE WHEN found.position <= $3::bigint THEN high ELSE (low + high + 1) / 2 - 1 END
    FROM search LEFT JOIN LATERAL (
      SELECT position, seq FROM evidence_row
       WHERE tenant_id = $1 AND chain_id = $2 AND seq BETWEEN (low + high + 1) / 2 AND high
       ORDER BY seq LIMIT 1) AS found ON true
   WHERE low < high
)
SELECT max(low) AS seq FROM search`,
};

/**
 * Returns the last seq of a chain up to a position. Within a chain, seq and position ascend
 * together.
 */
async function lastSeqUpTo(
  pool: Pool,
  tenantId: string,
  { chainId, position }: { readonly chainId: string; readonly position: number },
): Promise<number> {
  if (position === 0) return 0;
  const values = [tenantId, chainId, position];
  const [found] = await queryPrepared<{ seq: string | null }>(pool, seqSearch, values);
  return Number(found?.seq ?? 0);
}

interface Bound {
  readonly conditions: string[];
  readonly values: unknown[];
  bind(value: unknown): string;
}

function conditionsOf(
  tenantId: string,
  { filter, upTo, among }: EventsRead,
  occurredAt = 'occurred_at',
): Bound {
  const { equalities, fromMs, toMs } = filter;
  const values: unknown[] = [tenantId];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const conditions = ['tenant_id = $1', ...(among === undefined ? [] : [among])];
  for (const { column, value } of equalities) conditions.push(`${column} = ${bind(value)}`);
  if (fromMs !== undefined) conditions.push(`${occurredAt} >= ${bind(iso(fromMs))}`);
  if (toMs !== undefined) conditions.push(`${occurredAt} <= ${bind(iso(toMs))}`);
  if (upTo !== undefined) conditions.push(`position <= ${bind(upTo)}`);
  return { conditions, values, bind };
}

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * No index matches this expression. With a plain column, the planner would use the time index and
 * sort, although almost every row after the start is in the period.
 */
const unindexedTime = "(occurred_at + interval '0')";

/** Returns a statement that reads up to `limit` rows that pass a filter, from a start position. */
export function eventsStatement(tenantId: string, read: EventsRead, start: Start): Statement {
  const { conditions, values, bind } = conditionsOf(tenantId, read, unindexedTime);
  // If only one chain is read, the index of chains provides its rows in seq order.
  const order = start.seq === undefined ? 'position' : 'seq';
  conditions.push(`${order} > ${bind(start.seq ?? start.position)}`);
  const rows = `SELECT ${columns} FROM evidence_row
    WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${bind(read.limit)}`;
  return { text: boundByBytes({ columns, rows, order, bytesMax: read.bytesMax }), values };
}

/**
 * Returns a statement that reads the positions of late events. The subquery is materialised, so
 * that the planner does not expect the limit to end the scan early.
 */
export function lateStatement(tenantId: string, read: EventsRead, start: number): Statement {
  const { conditions, values, bind } = conditionsOf(tenantId, read);
  conditions.push(`position > ${bind(start)}`);
  const text = `WITH late AS MATERIALIZED (
      SELECT position FROM evidence_row WHERE ${conditions.join(' AND ')})
    SELECT position FROM late ORDER BY position LIMIT ${bind(read.limit)}`;
  return { text, values };
}
