import type { RowGuard } from '../integrity/row-guard.ts';
import type { SignedRow, SignedTable } from '../store/signed-columns.ts';

/**
 * Spreading a verified row may change its values, so the result must not count as verified. The
 * member is private, because TypeScript drops private members in a spread.
 */
declare abstract class VerifiedMark {
  private readonly verified: true;
}

/** A row that passed its integrity check. Only this folder creates values of this type. */
export type Verified<Row> = Row & VerifiedMark;

/** A row that was read but not verified. Only `claimsOf` gives access to its columns. */
export declare abstract class Unverified<Row> {
  private readonly row: Row;
}

/** Marks a row as not verified. */
export function unverified<Row extends object>(row: Row): Unverified<Row> {
  return row as unknown as Unverified<Row>;
}

/** Returns the columns of an unverified row. Use them only where a forged row gains nothing. */
export function claimsOf<Row extends object>(row: Unverified<Row>): Row {
  return row as unknown as Row;
}

/**
 * Verifies a row that was returned by a statement on several tables. Throws `integrity.forged_row`
 * for a forged row.
 */
export function verifyRow<Table extends SignedTable, Row extends SignedRow<Table>>(
  guard: RowGuard,
  table: Table,
  row: Unverified<Row>,
): Verified<Row> {
  const claimed = claimsOf(row);
  guard.assert(table, claimed);
  return claimed as Verified<Row>;
}

/** Like `verifyRow`, but returns undefined for a forged row, which is reported and counted. */
export function validRow<Table extends SignedTable, Row extends SignedRow<Table>>(
  guard: RowGuard,
  table: Table,
  row: Unverified<Row>,
): Verified<Row> | undefined {
  const claimed = claimsOf(row);
  return guard.holds(table, claimed) ? (claimed as Verified<Row>) : undefined;
}
