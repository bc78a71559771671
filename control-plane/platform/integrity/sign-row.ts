import { Prisma } from '../store/generated/client.ts';
import { type SignedRow, type SignedTable, signedColumns } from '../store/signed-columns.ts';
import type { Transaction } from '../store/transaction.ts';
import type { RowGuard } from './row-guard.ts';
import { snakeCase } from './signed-json.ts';

/**
 * Signs a row that this transaction has just written. All its values must be verified: before
 * changing an existing row, call `guard.assert`.
 */
export async function signRow<Table extends SignedTable, Row extends SignedRow<Table>>(
  tx: Pick<Transaction, '$executeRaw'>,
  { guard }: { readonly guard: RowGuard },
  table: Table,
  row: Row,
): Promise<Row> {
  const mac = guard.sign(table, row);
  const values = row as Readonly<Record<string, unknown>>;
  const columns: readonly string[] = signedColumns[table].key;
  const isKey = columns.map(
    (column) => Prisma.sql`${Prisma.raw(snakeCase(column))} = ${values[column]}`,
  );
  await tx.$executeRaw`update ${Prisma.raw(table)} set mac = ${mac} where ${Prisma.join(isKey, ' and ')}`;
  return { ...row, mac };
}
