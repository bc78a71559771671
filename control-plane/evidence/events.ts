import type { Pool } from 'pg';
import type { EvidenceQuery, SealedEventRecord } from '../../shared/contract/evidence.ts';
import { columnText } from '../../shared/evidence/columns.ts';
import type { SealedEvent } from '../../shared/evidence/event.ts';
import type { Services, Vault } from '../services.ts';
import { type ReadCursor, readCursor, writeCursor } from './cursor.ts';

type EvidenceFilters = Pick<
  EvidenceQuery,
  'chain_id' | 'agent_id' | 'tool' | 'decision' | 'reason_code' | 'from' | 'to'
>;

interface EventsPage {
  readonly events: SealedEventRecord[];
  readonly next_cursor: string | null;
}

/** A page of a tenant's events that pass every filter, in position order. */
export async function listEvents(
  services: Pick<Services, 'pool' | 'vault'>,
  tenantId: string,
  { cursor, limit, ...filters }: EvidenceQuery,
): Promise<EventsPage> {
  const after = cursor === undefined ? undefined : readCursor(services.vault, tenantId, cursor);
  const rows = await readEvents(services, tenantId, { filters, after, limit: limit + 1 });
  const events = rows.slice(0, limit);
  return { events, next_cursor: rows.length > limit ? (events.at(-1)?.cursor ?? null) : null };
}

interface EventsRead {
  readonly filters: EvidenceFilters;
  /** Undefined: from the beginning. */
  readonly after: ReadCursor | undefined;
  readonly limit: number;
}

/** Up to `limit` events after a cursor, each with a cursor of its own. */
async function readEvents(
  { pool, vault }: Pick<Services, 'pool' | 'vault'>,
  tenantId: string,
  read: EventsRead,
): Promise<SealedEventRecord[]> {
  const { from } = read.filters;
  const since = from === undefined ? 0 : await lastPositionBefore(pool, tenantId, from);
  const { text, values } = eventsStatement(tenantId, read, since);
  const { rows } = await pool.query<EventRow>({ text, values, rowMode: 'array' });
  return rows.map(([position, chainId, seq, prevHash, eventHash, canonical, sealedAt]) => ({
    ...toRecord(vault, {
      tenantId,
      position: Number(position),
      chainId,
      seq: Number(seq),
      prevHash,
      eventHash,
      canonical,
    }),
    sealed_at: sealedAt.toISOString(),
  }));
}

type EventRow = [string, string, string, string, string, string, Date];

/** A sealed event as the API shows it. */
export function toRecord(vault: Pick<Vault, 'mac'>, sealed: SealedEvent): SealedEventRecord {
  return {
    // Sealing wrote this text; it holds every member of an event.
    ...(JSON.parse(sealed.canonical) as SealedEventRecord),
    prev_hash: sealed.prevHash,
    event_hash: sealed.eventHash,
    cursor: writeCursor(vault, sealed.tenantId, sealed),
  };
}

const equalities = {
  chain_id: 'chain_id',
  agent_id: 'agent_id',
  tool: 'tool',
  decision: 'decision',
  reason_code: 'reason_code',
} as const;

// Halves the stretch in which the answer lies, by the batches' key, until nothing is left of it:
// what is kept beside the heads never falls from one batch to the next.
const searchStatement = `
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
SELECT max(low) AS position FROM search`;

/** No event up to this position occurred at `time` or later. */
export async function lastPositionBefore(
  pool: Pool,
  tenantId: string,
  time: string,
): Promise<number> {
  const { rows } = await pool.query<{ position: string | null }>(searchStatement, [tenantId, time]);
  return Number(rows[0]?.position ?? 0);
}

function eventsStatement(tenantId: string, { filters, after, limit }: EventsRead, since: number) {
  const values: unknown[] = [tenantId];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const conditions = ['tenant_id = $1'];
  for (const [name, column] of Object.entries(equalities)) {
    const value = filters[name as keyof typeof equalities];
    if (value !== undefined) conditions.push(`${column} = ${bind(columnText(value))}`);
  }
  if (filters.from !== undefined) conditions.push(`occurred_at >= ${bind(filters.from)}`);
  if (filters.to !== undefined) conditions.push(`occurred_at <= ${bind(filters.to)}`);
  // Within a chain, seq and position rise together: its own index gives the order.
  const order = filters.chain_id === undefined || since > 0 ? 'position' : 'seq';
  const seq = filters.chain_id === undefined ? undefined : after?.seqIn(filters.chain_id);
  if (seq !== undefined && since === 0) conditions.push(`seq > ${bind(seq)}`);
  else conditions.push(`position > ${bind(Math.max(since, after?.position ?? 0))}`);
  const text = `SELECT position, chain_id, seq, prev_hash, event_hash, canonical, sealed_at
    FROM evidence_row WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${bind(limit)}`;
  return { text, values };
}
