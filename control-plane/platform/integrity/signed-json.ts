import { addedColumns, type SignedTable, signedColumns } from '../store/signed-columns.ts';

/**
 * Returns SQL that builds a JSON object of a row's signed columns and `mac`, in the form that the
 * guard accepts. It is for statements that read several tables. `more` are further members.
 */
export function signedJson(
  table: SignedTable,
  alias: string,
  more: readonly string[] = [],
): string {
  const { key, signed } = signedColumns[table];
  const columns: readonly string[] = [...key, ...signed, ...addedColumns(table), 'mac'];
  const members = columns.map((column) => `'${column}', ${read(alias, column)}`);
  return `json_build_object(${[...members, ...more].join(', ')})`;
}

function read(alias: string, column: string): string {
  const name = `${alias}.${snakeCase(column)}`;
  return column.endsWith('At') ? `(extract(epoch from ${name}) * 1000)::bigint` : name;
}

/** Returns the database name of a column. */
export function snakeCase(column: string): string {
  return column.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
