import type { Pool } from 'pg';
import type { BundleChain, BundleEvent } from '../../../shared/evidence/bundle/layout.ts';
import type { ExportFilters } from '../../../shared/evidence/bundle/statement.ts';
import { columnText } from '../../../shared/evidence/columns.ts';
import { lastPositionBefore } from '../reading/event-rows.ts';

/** An event may take a megabyte: a page of them must still fit. */
const pageRows = 100;
const pageChains = 1_000;

/** A row as exports hold it, and its chain. */
export interface ExportRow extends BundleEvent {
  readonly chainId: string;
}

interface Wanted {
  readonly filters: ExportFilters;
  readonly upTo: number;
}

/** A tenant's rows up to a position that pass every filter, a page at a time; no transaction stays open. */
export async function* readRows(
  pool: Pool,
  tenantId: string,
  { filters, upTo }: Wanted,
): AsyncGenerator<readonly ExportRow[]> {
  const { from } = filters;
  let after = from === undefined ? 0 : await lastPositionBefore(pool, tenantId, from);
  for (let isMore = true; isMore; ) {
    const { text, values } = rowsStatement(tenantId, { filters, upTo }, after);
    const { rows } = await pool.query<RowArray>({ text, values, rowMode: 'array' });
    if (rows.length > 0) yield rows.map(toRow);
    after = Number(rows.at(-1)?.[0] ?? upTo);
    isMore = rows.length === pageRows;
  }
}

type RowArray = [
  position: string,
  chainId: string,
  prevHash: string,
  eventHash: string,
  canonical: string,
];

function toRow([position, chainId, prev_hash, event_hash, canonical]: RowArray): ExportRow {
  return { chainId, position: Number(position), prev_hash, event_hash, canonical };
}

function rowsStatement(tenantId: string, { filters, upTo }: Wanted, after: number) {
  const { from, to, ...equal } = filters;
  const values: unknown[] = [tenantId, after, upTo];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const conditions = ['tenant_id = $1', 'position > $2', 'position <= $3'];
  for (const [column, value] of Object.entries(equal)) {
    if (value !== undefined) conditions.push(`${column} = ${bind(columnText(value))}`);
  }
  if (from !== undefined) conditions.push(`occurred_at >= ${bind(from)}`);
  if (to !== undefined) conditions.push(`occurred_at <= ${bind(to)}`);
  const text = `SELECT position, chain_id, prev_hash, event_hash, canonical FROM evidence_row
    WHERE ${conditions.join(' AND ')} ORDER BY position LIMIT ${pageRows}`;
  return { text, values };
}

const chainsStatement = `
SELECT chain.chain_id, ending.seq, ending.event_hash
  FROM unnest($2::text[]) AS chain(chain_id) CROSS JOIN LATERAL (
    SELECT seq, event_hash FROM evidence_row AS row
     WHERE row.tenant_id = $1 AND row.chain_id = chain.chain_id AND position <= $3
     ORDER BY seq DESC LIMIT 1) AS ending
 ORDER BY chain.chain_id COLLATE "C"`;

/** Where each chain ended when the ledger had `upTo` rows. */
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
