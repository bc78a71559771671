import type { PublicJwk } from '../../../shared/crypto/signing-key.ts';
import type { ChainStart, LinkedRow } from '../../../shared/ledger/verification/chain-check.ts';
import type { StoredCheckpoint } from '../../../shared/ledger/verification/ledger-source.ts';
import type { Stretch } from '../reading/read-ledger.ts';
import type { Queryable } from '../sealing/read-state.ts';
import { readCheckpoint } from './read-checkpoint.ts';

/**
 * Reads the stored checkpoints in a stretch of the ledger, in position order, and verifies each
 * with the tenant's keys.
 */
export async function readStoredCheckpoints(
  connection: Queryable,
  { tenantId, keys }: { readonly tenantId: string; readonly keys: readonly PublicJwk[] },
  { after, upTo }: Stretch,
): Promise<readonly StoredCheckpoint[]> {
  const { rows } = await connection.query<{ size: string; note: string }>(
    `SELECT size, note FROM evidence_checkpoint
      WHERE tenant_id = $1 AND size > $2 AND size <= $3 ORDER BY size`,
    [tenantId, after, upTo],
  );
  return rows.map(({ size, note }) => {
    const position = Number(size);
    const checkpoint = readCheckpoint(note, { tenantId, keys });
    return {
      position,
      checkpoint: checkpoint?.position === position ? checkpoint : undefined,
    };
  });
}

/**
 * Used by a verification that starts inside the ledger. Reads the heads that the chains of these
 * rows had before the start. An earlier verification covered these heads; if they changed since,
 * the next verification of the whole ledger detects the change.
 */
export async function readStarts(
  connection: Queryable,
  { tenantId, before }: { readonly tenantId: string; readonly before: number },
  { rows, known }: { readonly rows: readonly LinkedRow[]; readonly known: Set<string> },
): Promise<readonly ChainStart[]> {
  const firsts = new Map<string, number>();
  for (const { chainId, seq } of rows) {
    if (known.has(chainId)) continue;
    known.add(chainId);
    firsts.set(chainId, seq);
  }
  if (firsts.size === 0) return [];
  const { rows: found } = await connection.query<[string, string, string, string]>({
    text: `SELECT row.chain_id, row.seq, row.event_hash, row.position
             FROM unnest($2::text[], $3::bigint[]) AS first(chain_id, seq)
             JOIN evidence_row AS row ON row.tenant_id = $1
              AND row.chain_id = first.chain_id AND row.seq = first.seq - 1
            WHERE row.position <= $4`,
    values: [tenantId, [...firsts.keys()], [...firsts.values()], before],
    rowMode: 'array',
  });
  return found.map(([chainId, seq, hash, position]) => ({
    chainId,
    seq: Number(seq),
    hash,
    position: Number(position),
  }));
}
