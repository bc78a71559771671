import { isJsonObject } from '../../../shared/base/json.ts';
import type { ChainIntegrity } from '../../../shared/contract/evidence/audit.ts';
import { eventHash } from '../../../shared/ledger/canonical.ts';
import { genesisHash } from '../../../shared/ledger/event.ts';
import type { LinkedRow } from '../../../shared/ledger/verification/chain-check.ts';
import type { Services } from '../../core/services.ts';

type Deps = Pick<Services, 'pool'>;

/** The fields of a shown event that are needed to verify its chain. */
export type ShownRow = Pick<LinkedRow, 'chainId' | 'seq' | 'prevHash' | 'eventHash' | 'canonical'>;

/** Maximum number of rows that are recomputed for one response, in total for all its chains. */
const rowsMax = 10_000;
const rowsMin = 20;
const pageRows = 500;

/**
 * Reports for each chain of the shown events whether its newest events are intact: each text
 * matches its hash, each event links to the previous one, and the last event is the head. The work
 * is bounded; `verify` reads the whole ledger.
 */
export async function chainIntegrity(
  { pool }: Deps,
  tenantId: string,
  shown: readonly ShownRow[],
): Promise<readonly ChainIntegrity[]> {
  const byChain = Map.groupBy(shown, ({ chainId }) => chainId);
  const depth = Math.max(rowsMin, Math.floor(rowsMax / Math.max(1, byChain.size)));
  const heads = await readHeads({ pool }, tenantId, [...byChain.keys()]);
  const found: ChainIntegrity[] = [];
  for (const [chain_id, rows] of byChain) {
    const head = heads.get(chain_id);
    const length = head?.seq ?? 0;
    const after = Math.max(0, length - depth);
    const isWhole =
      head !== undefined && (await isLinked({ pool }, { tenantId, chain_id, after, head }));
    const ok = isWhole && rows.every((row) => row.seq <= length && hasItsHash(row));
    found.push({ chain_id, length, verified: length - after, ok });
  }
  return found.sort((a, b) => (a.chain_id < b.chain_id ? -1 : 1));
}

interface Head {
  readonly seq: number;
  readonly hash: string;
}

/**
 * Reads the heads of the chains. Call it after reading the events, so that each shown event lies
 * within its chain.
 */
async function readHeads({ pool }: Deps, tenantId: string, chainIds: readonly string[]) {
  const { rows } = await pool.query<[string, string, string]>({
    text: `SELECT chain_id, seq, event_hash FROM evidence_chain
            WHERE tenant_id = $1 AND chain_id = ANY($2)`,
    values: [tenantId, chainIds],
    rowMode: 'array',
  });
  return new Map<string, Head>(rows.map(([id, seq, hash]) => [id, { seq: Number(seq), hash }]));
}

interface Stretch {
  readonly tenantId: string;
  readonly chain_id: string;
  readonly after: number;
  readonly head: Head;
}

async function isLinked({ pool }: Deps, { tenantId, chain_id, after, head }: Stretch) {
  let seq = after;
  // If the stretch does not start at the beginning of the chain, its first link is not verified.
  let hash = after === 0 ? genesisHash : undefined;
  while (seq < head.seq) {
    const { rows } = await pool.query<[string, string, string, string]>({
      text: `SELECT seq, prev_hash, event_hash, canonical FROM evidence_row
              WHERE tenant_id = $1 AND chain_id = $2 AND seq > $3 AND seq <= $4
              ORDER BY seq LIMIT ${pageRows}`,
      values: [tenantId, chain_id, seq, head.seq],
      rowMode: 'array',
    });
    if (rows.length === 0) return false;
    for (const [at, prevHash, eventHash, canonical] of rows) {
      const row = { chainId: chain_id, seq: Number(at), prevHash, eventHash, canonical };
      if (row.seq !== seq + 1 || !hasItsHash(row)) return false;
      if (hash !== undefined && prevHash !== hash) return false;
      seq = row.seq;
      hash = eventHash;
    }
  }
  return hash === head.hash;
}

function hasItsHash({ chainId, seq, prevHash, eventHash: kept, canonical }: ShownRow): boolean {
  if (eventHash(prevHash, canonical) !== kept) return false;
  try {
    const said: unknown = JSON.parse(canonical);
    return isJsonObject(said) && said.chain_id === chainId && said.seq === seq;
  } catch {
    return false;
  }
}
