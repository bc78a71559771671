import type { Pool } from 'pg';
import type { BundleChain, BundleEvent } from '../../../shared/ledger/bundle/layout.ts';
import type { ExportFilters } from '../../../shared/ledger/bundle/statement.ts';
import { eventFilter } from '../reading/event-filter.ts';
import { type EventRow, readEventRows } from '../reading/event-rows.ts';

const pageRows = 100;
const pageChains = 1_000;

/** An exported row and its chain. */
export interface ExportRow extends BundleEvent {
  readonly chainId: string;
}

interface Wanted {
  readonly filters: ExportFilters;
  readonly upTo: number;
}

/**
 * Reads a tenant's rows that pass every filter, up to a position, one page at a time. No
 * transaction stays open between pages.
 */
export async function* readRows(
  pool: Pool,
  tenantId: string,
  { filters, upTo }: Wanted,
): AsyncGenerator<readonly ExportRow[]> {
  const filter = eventFilter(filters);
  for (let position = 0; position < upTo; ) {
    const after = { position, seqIn: () => undefined };
    const read = { filter, after, upTo, limit: pageRows };
    const { rows, isFull } = await readEventRows(pool, tenantId, read);
    if (rows.length > 0) yield rows.map(toRow);
    position = isFull ? Number(rows.at(-1)?.[0] ?? upTo) : upTo;
  }
}

function toRow([position, chainId, _seq, prev_hash, event_hash, canonical]: EventRow): ExportRow {
  return { chainId, position: Number(position), prev_hash, event_hash, canonical };
}

const chainsStatement = `
SELECT chain.chain_id, ending.seq, ending.event_hash
  FROM unnest($2::text[]) AS chain(chain_id) CROSS JOIN LATERAL (
    SELECT seq, event_hash FROM evidence_row AS row
     WHERE row.tenant_id = $1 AND row.chain_id = chain.chain_id AND position <= $3
     ORDER BY seq DESC LIMIT 1) AS ending
 ORDER BY chain.chain_id COLLATE "C"`;

/** Reads the head that each chain had when the ledger had `upTo` rows. */
export async function* readChainEnds(
  pool: Pool,
  tenantId: string,
  { chainIds, upTo }: { readonly chainIds: ReadonlySet<string>; readonly upTo: number },
): AsyncGenerator<readonly BundleChain[]> {
  const ids = [...chainIds].sort();
  for (let at = 0; at < ids.length; at += pageChains) {
    const { rows } = await pool.query<[string, string, string]>({
      text: chainsStatement,
      values: [tenantId, ids.slice(at, at + pageChains), upTo],
      rowMode: 'array',
    });
    yield rows.map(([chain_id, seq, event_hash]) => ({ chain_id, seq: Number(seq), event_hash }));
  }
}
