import type { ClientBase, Pool } from 'pg';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { genesisHash, type SealedEvent } from '../../../shared/ledger/event.ts';
import { emptyRoot, Frontier } from '../../../shared/ledger/merkle.ts';
import type { ChainHead } from './prepare-batch.ts';

export type Queryable = Pick<Pool | ClientBase, 'query'>;

interface ReadState {
  readonly position: number;
  /** Stored tree. It is not verified yet; see `signature`. */
  readonly tree: Frontier;
  /** Root in the head row. */
  readonly treeRoot: string;
  /** Detached JWS of the head at this position; undefined if no batch ends at this position. */
  readonly signature: string | undefined;
  /** Root of the batch that ends at the confirmed position; undefined if there is none. */
  readonly confirmedRoot: string | undefined;
  readonly latestMs: number;
  /**
   * Heads of the requested chains, from their last rows; a chain without rows has its initial head.
   */
  readonly chains: ReadonlyMap<string, ChainHead>;
  /** Rows that already hold a requested event, by event id. */
  readonly existing: ReadonlyMap<string, SealedEvent>;
}

interface Wanted {
  readonly chainIds: readonly string[];
  readonly eventIds: readonly string[];
  /** Position whose root is returned as `confirmedRoot`. */
  readonly confirmedPosition: number;
}

// Reads the head, the chains and the rows in one SQL statement, so all of them come from the same
// database snapshot.
const readStatement = `
SELECT head.position, head.frontier, head.tree_root,
       (SELECT jws FROM evidence_batch AS batch
         WHERE batch.tenant_id = $1 AND batch.position = head.position) AS signature,
       (SELECT tree_root FROM evidence_batch AS batch
         WHERE batch.tenant_id = $1 AND batch.position = $4::bigint) AS confirmed_root,
       (SELECT extract(epoch FROM max(occurred_at)) * 1000
          FROM evidence_row WHERE tenant_id = $1) AS latest,
       (SELECT coalesce(json_agg(json_build_array(asked.chain_id, chain.seq, chain.event_hash,
                 last.seq, last.event_hash, last.position)), '[]')
          FROM unnest($2::text[]) AS asked(chain_id)
          LEFT JOIN evidence_chain AS chain
            ON chain.tenant_id = $1 AND chain.chain_id = asked.chain_id
          LEFT JOIN LATERAL (
            SELECT seq, event_hash, position FROM evidence_row AS row
             WHERE row.tenant_id = $1 AND row.chain_id = asked.chain_id
             ORDER BY seq DESC LIMIT 1) AS last ON true) AS chains,
       (SELECT coalesce(json_agg(json_build_array(
                 event_id, position, chain_id, seq, prev_hash, event_hash, canonical)), '[]')
          FROM evidence_row WHERE tenant_id = $1 AND event_id = ANY($3::text[])) AS existing
  FROM evidence_head AS head WHERE tenant_id = $1`;

const createStatement = `
INSERT INTO evidence_head (tenant_id, position, frontier, tree_root)
VALUES ($1, 0, '{}', $2) ON CONFLICT DO NOTHING`;

type ExistingRow = [string, number, string, number, string, string, string];

/** The stored head of a chain, followed by the chain's last row. */
type ChainRow = [
  chainId: string,
  ...kept: [number, string] | [null, null],
  ...last: [number, string, number] | [null, null, null],
];

interface StateRow {
  readonly position: string;
  readonly frontier: readonly string[];
  readonly tree_root: string;
  readonly signature: string | null;
  readonly confirmed_root: string | null;
  readonly latest: string | null;
  readonly chains: readonly ChainRow[];
  readonly existing: readonly ExistingRow[];
}

/** Reads the head of a tenant's ledger; creates the head row at first use. */
export async function readState(
  connection: Queryable,
  tenantId: string,
  wanted: Wanted,
): Promise<ReadState> {
  const { chainIds, eventIds, confirmedPosition } = wanted;
  const values = [tenantId, chainIds, eventIds, confirmedPosition];
  const { rows } = await connection.query<StateRow>(readStatement, values);
  const [row] = rows;
  if (row === undefined) {
    await connection.query(createStatement, [tenantId, `sha256:${emptyRoot.toString('hex')}`]);
    return readState(connection, tenantId, wanted);
  }
  const position = Number(row.position);
  return {
    position,
    tree: treeOf(row),
    treeRoot: row.tree_root,
    signature: row.signature ?? undefined,
    confirmedRoot: row.confirmed_root ?? undefined,
    latestMs: row.latest === null ? Number.NEGATIVE_INFINITY : Number(row.latest),
    chains: new Map(row.chains.map((chain) => [chain[0], chainHead(chain, position)])),
    existing: new Map(row.existing.map((found) => [found[0], toSealed(tenantId, found)])),
  };
}

/**
 * Returns the head of a chain. Throws `evidence.fork` if the stored head is not the chain's last
 * row, because the next row will link to that row.
 */
function chainHead(chain: ChainRow, position: number): ChainHead {
  const [chainId, keptSeq, keptHash, seq, hash, lastPosition] = chain;
  if (seq !== keptSeq || hash !== keptHash || Number(lastPosition) > position) {
    throw new GatewayError('evidence.fork', {
      cause: new Error(`the stored end of chain ${chainId} is not its last row`),
    });
  }
  return seq === null ? { seq: 0, hash: genesisHash } : { seq, hash };
}

function treeOf({ position, frontier }: StateRow): Frontier {
  const roots = frontier.map((root) => Buffer.from(root, 'hex'));
  try {
    return new Frontier(Number(position), roots);
  } catch (cause) {
    throw new GatewayError('evidence.fork', { cause });
  }
}

/** Returns the rows that hold these events, if they are sealed. */
export async function findSealed(
  connection: Queryable,
  tenantId: string,
  eventIds: readonly string[],
): Promise<ReadonlyMap<string, SealedEvent>> {
  const { rows } = await connection.query<ExistingRow>({
    text: `SELECT event_id, position, chain_id, seq, prev_hash, event_hash, canonical
             FROM evidence_row WHERE tenant_id = $1 AND event_id = ANY($2::text[])`,
    values: [tenantId, eventIds],
    rowMode: 'array',
  });
  return new Map(rows.map((row) => [row[0], toSealed(tenantId, row)]));
}

function toSealed(tenantId: string, row: ExistingRow): SealedEvent {
  const [, position, chainId, seq, prevHash, hash, canonical] = row;
  return {
    tenantId,
    position: Number(position),
    chainId,
    seq: Number(seq),
    prevHash,
    eventHash: hash,
    canonical,
  };
}
