import type { ClientBase, Pool } from 'pg';
import { GatewayError } from '../../shared/errors.ts';
import { genesisHash, type SealedEvent } from '../../shared/evidence/event.ts';
import { emptyRoot, Frontier } from '../../shared/evidence/merkle.ts';
import type { ChainHead } from './prepare-batch.ts';

export type Queryable = Pick<Pool | ClientBase, 'query'>;

interface ReadState {
  readonly position: number;
  /** As it is kept; `signature` says whether it is the tree that was signed. */
  readonly tree: Frontier;
  /** A detached JWS of the head at this position; undefined where no batch ended there. */
  readonly signature: string | undefined;
  readonly latestMs: number;
  /** Every chain asked for; one that does not exist yet stands at its beginning. */
  readonly chains: ReadonlyMap<string, ChainHead>;
  /** By event id: rows that already hold one of the events asked for. */
  readonly existing: ReadonlyMap<string, SealedEvent>;
}

interface Wanted {
  readonly chainIds: readonly string[];
  readonly eventIds: readonly string[];
}

// One statement is one snapshot: head, chains and rows belong together.
const readStatement = `
SELECT head.position, head.frontier,
       (SELECT jws FROM evidence_batch AS batch
         WHERE batch.tenant_id = $1 AND batch.position = head.position) AS signature,
       (SELECT extract(epoch FROM max(occurred_at)) * 1000
          FROM evidence_row WHERE tenant_id = $1) AS latest,
       (SELECT coalesce(json_agg(json_build_array(chain_id, seq, event_hash)), '[]')
          FROM evidence_chain WHERE tenant_id = $1 AND chain_id = ANY($2::text[])) AS chains,
       (SELECT coalesce(json_agg(json_build_array(
                 event_id, position, chain_id, seq, prev_hash, event_hash, canonical)), '[]')
          FROM evidence_row WHERE tenant_id = $1 AND event_id = ANY($3::text[])) AS existing
  FROM evidence_head AS head WHERE tenant_id = $1`;

const createStatement = `
INSERT INTO evidence_head (tenant_id, position, frontier, tree_root)
VALUES ($1, 0, '{}', $2) ON CONFLICT DO NOTHING`;

type ExistingRow = [string, number, string, number, string, string, string];

interface StateRow {
  readonly position: string;
  readonly frontier: readonly string[];
  readonly signature: string | null;
  readonly latest: string | null;
  readonly chains: readonly [string, number, string][];
  readonly existing: readonly ExistingRow[];
}

/** Reads where a tenant's ledger ends; its head is made at first use. */
export async function readState(
  connection: Queryable,
  tenantId: string,
  { chainIds, eventIds }: Wanted,
): Promise<ReadState> {
  const { rows } = await connection.query<StateRow>(readStatement, [tenantId, chainIds, eventIds]);
  const [row] = rows;
  if (row === undefined) {
    await connection.query(createStatement, [tenantId, `sha256:${emptyRoot.toString('hex')}`]);
    return readState(connection, tenantId, { chainIds, eventIds });
  }
  const heads = new Map(row.chains.map(([chainId, seq, hash]) => [chainId, { seq, hash }]));
  return {
    position: Number(row.position),
    tree: treeOf(row),
    signature: row.signature ?? undefined,
    latestMs: row.latest === null ? Number.NEGATIVE_INFINITY : Number(row.latest),
    chains: new Map(chainIds.map((id) => [id, heads.get(id) ?? { seq: 0, hash: genesisHash }])),
    existing: new Map(row.existing.map((found) => [found[0], toSealed(tenantId, found)])),
  };
}

function treeOf({ position, frontier }: StateRow): Frontier {
  const roots = frontier.map((root) => Buffer.from(root, 'hex'));
  try {
    return new Frontier(Number(position), roots);
  } catch (cause) {
    throw new GatewayError('evidence.fork', { cause });
  }
}

/** The row that holds an event, if it is sealed. */
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
