import type { Pool, PoolClient } from 'pg';
import { emptyRoot } from '../../../shared/ledger/merkle.ts';
import type {
  Anchor,
  ChainEnd,
  LedgerPage,
} from '../../../shared/ledger/verification/ledger-source.ts';
import type { LedgerRow } from '../../../shared/ledger/verification/row-check.ts';
import type { Queryable } from '../sealing/read-state.ts';
import { boundByBytes } from './page-bytes.ts';

const pageRows = 1_000;
const everything = Number.MAX_SAFE_INTEGER;

/** Current position of a tenant's ledger. */
export async function headPosition(connection: Queryable, tenantId: string): Promise<number> {
  const { rows } = await connection.query<{ position: string }>(
    'SELECT position FROM evidence_head WHERE tenant_id = $1',
    [tenantId],
  );
  return Number(rows[0]?.position ?? 0);
}

/**
 * Reads additional data about a stretch of the ledger, on the same connection as the stretch's
 * rows.
 */
export type BesideReader = (
  connection: Queryable,
  page: Stretch & { readonly rows: readonly LedgerRow[] },
) => Promise<Pick<LedgerPage, 'checkpoints' | 'starts'>>;

const nothingBeside: BesideReader = async () => ({});

/** Reads a stretch of a tenant's ledger, one page at a time, and prefetches the next page. */
export async function* readPages(
  connection: Queryable,
  tenantId: string,
  { after, upTo }: Stretch,
  readBeside: BesideReader = nothingBeside,
): AsyncGenerator<LedgerPage> {
  if (after >= upTo) return;
  const read = async (from: number) => {
    const { rows, isFull } = await readRows(connection, tenantId, { after: from, upTo });
    // A page that is not full is the last one, so its stretch reaches `upTo`.
    const last = isFull ? (rows.at(-1)?.position ?? upTo) : upTo;
    const anchors = await readHeads(connection, tenantId, { after: from, upTo: last });
    const beside = await readBeside(connection, { rows, after: from, upTo: last });
    return { page: { rows, anchors, ...beside }, last };
  };
  for (let reading = read(after); ; ) {
    const { page, last } = await reading;
    if (last >= upTo) {
      yield page;
      return;
    }
    reading = read(last);
    // If the consumer stops early, nothing awaits the prefetched page, so its rejection is ignored
    // here.
    reading.catch(() => {});
    yield page;
  }
}

type RowArray = [
  ...start: [string, string, string, string, string, string, string, string, string],
  ...nullable: [string | null, string | null, string | null, string | null],
  occurredAtMs: string,
  found: string,
];

export interface Stretch {
  readonly after: number;
  readonly upTo: number;
}

const columns = `position, chain_id, seq, prev_hash, event_hash, canonical, event_id, type, source,
  agent_id, tool, decision, reason_code`;
const rowsStatement = boundByBytes({
  columns: `${columns}, occurred_ms`,
  rows: `SELECT ${columns}, (extract(epoch FROM occurred_at) * 1000)::bigint AS occurred_ms
    FROM evidence_row WHERE tenant_id = $1 AND position > $2 AND position <= $3
   ORDER BY position LIMIT ${pageRows}`,
  order: 'position',
});

async function readRows(connection: Queryable, tenantId: string, { after, upTo }: Stretch) {
  const { rows } = await connection.query<RowArray>({
    text: rowsStatement,
    values: [tenantId, after, upTo],
    rowMode: 'array',
  });
  const isFull = rows.length === pageRows || rows.length < Number(rows[0]?.[14] ?? 0);
  return { rows: rows.map(toRow), isFull };
}

function toRow(row: RowArray): LedgerRow {
  const [position, chainId, seq, prevHash, eventHash, canonical, eventId, type, source] = row;
  return {
    position: Number(position),
    chainId,
    seq: Number(seq),
    prevHash,
    eventHash,
    canonical,
    columns: {
      eventId,
      type,
      source,
      agentId: row[9],
      tool: row[10],
      decision: row[11],
      reasonCode: row[12],
      occurredAtMs: Number(row[13]),
    },
  };
}

interface HeadRow {
  readonly position: string;
  readonly tree_root: string;
  readonly jws: string;
  readonly latest_at: Date;
}

/** Returns the signed heads of the batches in a stretch, in position order. */
async function readHeads(
  connection: Queryable,
  tenantId: string,
  { after, upTo }: Stretch,
): Promise<readonly Anchor[]> {
  const { rows } = await connection.query<HeadRow>(
    `SELECT position, tree_root, jws, latest_at FROM evidence_batch
      WHERE tenant_id = $1 AND position > $2 AND position <= $3 ORDER BY position`,
    [tenantId, after, upTo],
  );
  return rows.map(({ position, tree_root: treeRoot, jws, latest_at: latestAt }) => ({
    position: Number(position),
    treeRoot,
    jws,
    latestMs: latestAt.getTime(),
  }));
}

/** Returns the position of the first of the newest `count` batches. */
export async function newestHeadsFrom(
  connection: Queryable,
  tenantId: string,
  count: number,
): Promise<number> {
  const { rows } = await connection.query<{ position: string }>(
    `SELECT position FROM evidence_batch WHERE tenant_id = $1
      ORDER BY position DESC OFFSET $2 LIMIT 1`,
    [tenantId, count - 1],
  );
  return Number(rows[0]?.position ?? 0);
}

export interface LedgerEnd {
  readonly head: { readonly position: number; readonly treeRoot: string } | undefined;
  readonly chainEnds: readonly ChainEnd[];
}

/**
 * Reads the rows after a position, then the heads of the ledger and its chains. All reads see the
 * same snapshot, so a ledger that grows meanwhile does not look damaged.
 */
export async function* readTail(
  pool: Pool,
  tenantId: string,
  after: number,
  readBeside: BesideReader = nothingBeside,
): AsyncGenerator<LedgerPage, LedgerEnd> {
  const client = await pool.connect();
  let isDone = false;
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const end = await readEnd(client, tenantId);
    yield* readPages(client, tenantId, { after, upTo: everything }, readBeside);
    await client.query('COMMIT');
    isDone = true;
    return end;
  } finally {
    // A connection that is still in the transaction is closed instead of returned to the pool.
    client.release(!isDone);
  }
}

const emptyTreeRoot = `sha256:${emptyRoot.toString('hex')}`;

async function readEnd(client: PoolClient, tenantId: string): Promise<LedgerEnd> {
  const { rows: heads } = await client.query<{ position: string; tree_root: string }>(
    'SELECT position, tree_root FROM evidence_head WHERE tenant_id = $1',
    [tenantId],
  );
  const { rows: chains } = await client.query<[string, string, string]>({
    text: 'SELECT chain_id, seq, event_hash FROM evidence_chain WHERE tenant_id = $1',
    values: [tenantId],
    rowMode: 'array',
  });
  // A ledger without a head row is empty, so rows that exist do not belong to it.
  const { position, tree_root: treeRoot } = heads[0] ?? { position: 0, tree_root: emptyTreeRoot };
  return {
    head: { position: Number(position), treeRoot },
    chainEnds: chains.map(([chainId, seq, hash]) => ({ chainId, seq: Number(seq), hash })),
  };
}
