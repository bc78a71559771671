import type { Services } from '../../../control-plane/core/services.ts';
import { signHead } from '../../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../../shared/ledger/merkle.ts';
import { tamper } from './ledger.ts';

/**
 * Creates a ledger of any length for a tenant in a short time. Its rows contain only hashes, so the
 * ledger does not pass verification. Its tree and its signed head are as sealing would have created
 * them.
 */
export async function writeLongLedger(
  { signingKeys, pool }: Pick<Services, 'signingKeys' | 'pool'>,
  databaseUrl: string,
  { tenantId, size }: { readonly tenantId: string; readonly size: number },
): Promise<void> {
  await tamper(
    databaseUrl,
    `INSERT INTO evidence_row (tenant_id, position, chain_id, seq, prev_hash, event_hash, canonical,
       event_id, type, source, occurred_at)
     SELECT '${tenantId}', n, 'agent:1', n, '', 'sha256:' || encode(sha256(n::text::bytea), 'hex'),
       '{}', 'ev_' || n, 'custom.test', 'test', now() FROM generate_series(1, ${size}) AS n`,
  );
  const { rows } = await pool.query<{ event_hash: string }>(
    'SELECT event_hash FROM evidence_row WHERE tenant_id = $1 ORDER BY position',
    [tenantId],
  );
  const tree = new Frontier();
  for (const row of rows) tree.append(leafOf(row.event_hash));
  const root = `sha256:${tree.root().toString('hex')}`;
  const key = await signingKeys.active(tenantId, 'checkpoint');
  const jws = signHead({ tenant: tenantId, position: size, tree_root: root }, key);
  const frontier = tree.roots.map((one) => one.toString('hex')).join(',');
  await tamper(
    databaseUrl,
    `INSERT INTO evidence_head (tenant_id, position, frontier, tree_root)
     VALUES ('${tenantId}', ${size}, '{${frontier}}', '${root}')`,
    `INSERT INTO evidence_batch (tenant_id, position, tree_root, kid, jws, latest_at)
     VALUES ('${tenantId}', ${size}, '${root}', '${key.kid}', '${jws}', now())`,
  );
}
