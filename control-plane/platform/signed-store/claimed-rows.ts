import {
  delegates,
  type ListQuery,
  type Row,
  type SignedClient,
  type StoredTable,
  type Where,
} from './tables.ts';

/** What rows of a signed table claim, where no row gives authority. */
export function claimedRows<Table extends StoredTable>(
  db: Pick<SignedClient, (typeof delegates)[Table]>,
  table: Table,
): ClaimedRows<Table> {
  return new ClaimedRows(db, table);
}

/** Of a Prisma delegate, the operations used here. */
interface Delegate {
  findUnique(args: unknown): Promise<object | null>;
  findMany(args: unknown): Promise<object[]>;
  count(args: unknown): Promise<number>;
  create(args: unknown): Promise<object>;
  createMany(args: unknown): Promise<{ readonly count: number }>;
  updateMany(args: unknown): Promise<{ readonly count: number }>;
  upsert(args: unknown): Promise<object>;
  deleteMany(args: unknown): Promise<{ readonly count: number }>;
}

/** Columns of rows that nobody verifies: names, ids and states that give no authority. */
export class ClaimedRows<Table extends StoredTable> {
  protected readonly table: Table;
  protected readonly delegate: Delegate;

  constructor(db: Pick<SignedClient, (typeof delegates)[Table]>, table: Table) {
    this.table = table;
    this.delegate = db[delegates[table]] as unknown as Delegate;
  }

  /** Use it only where a forged row gains nothing. */
  async findClaims<Column extends keyof Row<Table> & string>(
    columns: readonly Column[],
    query: ListQuery<Table>,
  ): Promise<readonly Readonly<Pick<Row<Table>, Column>>[]> {
    const select = Object.fromEntries(columns.map((column) => [column, true]));
    return (await this.delegate.findMany({ ...query, select })) as Pick<Row<Table>, Column>[];
  }

  /** Counts rows, forged ones too. */
  count(where: Where<Table>): Promise<number> {
    return this.delegate.count({ where });
  }
}
