import type { RowGuard } from '../integrity/row-guard.ts';
import { addedColumns, type SignedRow, signedColumns } from '../store/signed-columns.ts';
import { ClaimedRows } from './claimed-rows.ts';
import type {
  Included,
  ListQuery,
  Row,
  SignedClient,
  SignedPart,
  StoredTable,
  UniqueQuery,
} from './tables.ts';
import { claimsOf, type Unverified, unverified, type Verified } from './verified.ts';

export interface Store {
  readonly db: SignedClient;
  readonly guard: RowGuard;
}

type Found<Table extends StoredTable, Query> = Row<Table> & Included<Query>;

/** Reads rows of a signed table. The type of a row shows whether it is verified. */
export class SignedReader<Table extends StoredTable> extends ClaimedRows<Table> {
  readonly #guard: RowGuard;

  constructor({ db, guard }: Store, table: Table) {
    super(db, table);
    this.#guard = guard;
  }

  /**
   * Returns the verified row, or null if there is none. Throws `integrity.forged_row` for a forged
   * row.
   */
  async findUnique<Query extends UniqueQuery<Table>>(
    query: Query,
  ): Promise<Verified<Found<Table, Query>> | null> {
    const row = await this.findUniqueUnverified(query);
    return row === null ? null : this.verify(row);
  }

  /** Like `findUnique`, for a row that must exist. */
  async findExisting<Query extends UniqueQuery<Table>>(
    query: Query,
  ): Promise<Verified<Found<Table, Query>>> {
    const row = await this.findUnique(query);
    if (row === null) throw new Error(`a row of ${this.table} does not exist`);
    return row;
  }

  /**
   * Returns the first row that the query finds, verified. Throws `integrity.forged_row` if this row
   * is forged.
   */
  async findFirst(query: ListQuery<Table>): Promise<Verified<Row<Table>> | null> {
    const [row] = await this.findUnverified({ ...query, take: 1 });
    return row === undefined ? null : this.verify(row);
  }

  /** Returns the verified rows. Throws `integrity.forged_row` if one of them is forged. */
  async findMany<Query extends ListQuery<Table>>(
    query: Query,
  ): Promise<readonly Verified<Found<Table, Query>>[]> {
    const rows = await this.findUnverified(query);
    return rows.map((row) => this.verify(row));
  }

  /** Returns the verified rows without the forged ones, which are reported and counted. */
  async findValid<Query extends ListQuery<Table>>(
    query: Query,
  ): Promise<readonly Verified<Found<Table, Query>>[]> {
    return this.valid(await this.findUnverified(query));
  }

  async findUniqueUnverified<Query extends UniqueQuery<Table>>(
    query: Query,
  ): Promise<Unverified<Found<Table, Query>> | null> {
    const row = (await this.delegate.findUnique(query)) as Found<Table, Query> | null;
    return row === null ? null : unverified(row);
  }

  async findUnverified<Query extends ListQuery<Table>>(
    query: Query,
  ): Promise<readonly Unverified<Found<Table, Query>>[]> {
    const rows = (await this.delegate.findMany(query)) as Found<Table, Query>[];
    return rows.map(unverified);
  }

  /** Reads only the signed columns of rows, because the remaining columns may be long. */
  async findSigned(query: ListQuery<Table>): Promise<readonly Unverified<SignedPart<Table>>[]> {
    const { key, signed } = signedColumns[this.table];
    const columns = [...key, ...signed, ...addedColumns(this.table), 'mac'];
    const select = Object.fromEntries(columns.map((column) => [column, true]));
    const rows = (await this.delegate.findMany({ ...query, select })) as SignedPart<Table>[];
    return rows.map(unverified);
  }

  /** Verifies a row; throws `integrity.forged_row` for a forged one. */
  verify<Read extends Row<Table>>(row: Unverified<Read>): Verified<Read> {
    const claimed = claimsOf(row);
    this.#guard.assert(this.table, asSigned<Table>(claimed));
    return claimed as Verified<Read>;
  }

  /** Returns whether a row is valid. A forged row is reported and counted. */
  isValid(row: Unverified<Row<Table>> | Unverified<SignedPart<Table>>): boolean {
    return this.#guard.holds(this.table, asSigned<Table>(claimsOf<object>(row)));
  }

  /** Returns the valid rows. Forged rows are reported and counted. */
  valid<Read extends Row<Table>>(rows: readonly Unverified<Read>[]): readonly Verified<Read>[] {
    return rows.filter((row) => this.isValid(row)).map((row) => claimsOf(row) as Verified<Read>);
  }
}

export function asSigned<Table extends StoredTable>(row: object): SignedRow<Table> {
  return row as SignedRow<Table>;
}
