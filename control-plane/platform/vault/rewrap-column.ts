import type { ClientBase, Pool } from 'pg';
import type { Keyring } from './keyring.ts';
import type { SealedColumn } from './sealed-columns.ts';
import { rewrap } from './vault.ts';

const batchRows = 250;

interface SealedRow {
  readonly ctid: string;
  readonly sealed: string;
  readonly key: readonly string[];
  readonly place: readonly string[];
}

/** Result of wrapping the data keys of a column again. */
export interface Rewrapped {
  readonly rewrapped: number;
  /**
   * Primary keys of rows that no known key decrypts. Their secrets were already lost before this
   * run.
   */
  readonly unreadable: readonly string[];
}

/**
 * Wraps every data key of a column with the active key, in small transactions. Leaves locked rows
 * to the next sweep, because waiting for their locks could deadlock other transactions.
 */
export async function rewrapColumn(
  pool: Pool,
  keyring: Keyring,
  column: SealedColumn,
): Promise<Rewrapped> {
  let after: readonly string[] | undefined;
  let rewrapped = 0;
  const unreadable: string[] = [];
  for (;;) {
    const { rows, failed } = await rewrapBatch(pool, keyring, { column, after });
    rewrapped += rows.length - failed.length;
    unreadable.push(...failed.map(({ key }) => `${column.table} ${key.join(' ')}`));
    after = rows.at(-1)?.key;
    if (after === undefined) return { rewrapped, unreadable };
  }
}

async function rewrapBatch(
  pool: Pool,
  keyring: Keyring,
  batch: { readonly column: SealedColumn; readonly after: readonly string[] | undefined },
): Promise<{ readonly rows: readonly SealedRow[]; readonly failed: readonly SealedRow[] }> {
  const { column } = batch;
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const rows = await lockBatch(client, keyring.active.id, batch);
    const made = rows.map((row) => ({ row, sealed: rewrapped(keyring, column, row) }));
    const done = made.filter(({ sealed }) => sealed !== undefined);
    await client.query(
      `UPDATE ${column.table} SET ${column.column} = made.sealed
         FROM unnest($1::text[]::tid[], $2::text[]) AS made (place, sealed)
        WHERE ${column.table}.ctid = made.place`,
      [done.map(({ row }) => row.ctid), done.map(({ sealed }) => sealed)],
    );
    await client.query('COMMIT');
    return {
      rows,
      failed: made.filter(({ sealed }) => sealed === undefined).map(({ row }) => row),
    };
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}

function rewrapped(
  keyring: Keyring,
  { idOf }: SealedColumn,
  { sealed, place }: SealedRow,
): string | undefined {
  try {
    return rewrap(keyring, sealed, idOf(place));
  } catch {
    return undefined;
  }
}

async function lockBatch(
  client: ClientBase,
  activeId: string,
  {
    column: { table, column, key, place },
    after,
  }: { readonly column: SealedColumn; readonly after: readonly string[] | undefined },
): Promise<readonly SealedRow[]> {
  const marks = key.map((_, index) => `$${index + 3}`);
  const { rows } = await client.query<SealedRow>(
    `SELECT ctid::text AS ctid, ${column} AS sealed, ${textsOf(key)} AS key, ${textsOf(place)} AS place
       FROM ${table}
      WHERE ${isSealed(column)} AND strpos(${column}, $1) = 0
        ${after === undefined ? '' : `AND (${key.join(', ')}) > (${marks.join(', ')})`}
      ORDER BY ${key.join(', ')} LIMIT $2
        FOR UPDATE SKIP LOCKED`,
    [wrapMark(activeId), batchRows, ...(after ?? [])],
  );
  return rows;
}

/** Returns an SQL condition that excludes erased values, which are empty and not sealed. */
const isSealed = (column: string): string => `${column} IS NOT NULL AND ${column} <> ''`;

const textsOf = (columns: readonly string[]): string =>
  `ARRAY[${columns.map((column) => `${column}::text`).join(', ')}]::text[]`;

/** Returns the text that identifies an envelope wrapped by this key. */
function wrapMark(id: string): string {
  return `"kek_id":"${id}"`;
}

/** Returns, for each key, how many secrets of a column it wraps. */
export async function countWrapped(
  pool: Pick<Pool, 'query'>,
  { table, column }: Pick<SealedColumn, 'table' | 'column'>,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ id: string; count: number }>(
    `SELECT coalesce(substring(${column} from '"kek_id":"([^"]*)"'), 'unknown') AS id, count(*)::int AS count
       FROM ${table} WHERE ${isSealed(column)} GROUP BY 1`,
  );
  return new Map(rows.map(({ id, count }) => [id, count]));
}
