import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import {
  addedColumns,
  type SignedRow,
  type SignedTable,
  signedColumns,
} from '../store/signed-rows.ts';

type Plain = Readonly<Record<string, unknown>>;

/** What names a row within its table, as text: for evidence and logs. */
export function rowKey<Table extends SignedTable>(
  table: Table,
  row: Partial<SignedRow<Table>>,
): string {
  const columns: readonly string[] = signedColumns[table].key;
  const { tenantId, ...rest } = row as Plain;
  const own = columns.filter((column) => column !== 'tenantId');
  return own.map((column) => String(rest[column])).join(' ');
}

/**
 * The signed part of a row as text: its values in the order of the table above, so that no value
 * can pass for another column's, and no row for one of another table or tenant.
 */
export function rowText<Table extends SignedTable>(
  table: Table,
  row: Omit<SignedRow<Table>, 'mac'>,
): string {
  const { key, signed } = signedColumns[table];
  const values = row as Plain;
  const columns: readonly string[] = [...key, ...signed];
  const added = addedColumns(table).filter((column) => isSet(values[column]));
  return JSON.stringify([
    ...columns.map((column) => plain(values[column])),
    ...added.map((column) => [column, plain(values[column])]),
  ]);
}

function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== null;
}

/** Timestamps as milliseconds, JSON columns canonical: jsonb keeps no order of members. */
function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (value instanceof Date) return value.getTime();
  if (Array.isArray(value) || typeof value !== 'object') return value;
  return canonicalJson(JSON.parse(JSON.stringify(value)));
}
