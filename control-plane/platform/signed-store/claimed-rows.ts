import {
  delegates,
  type ListQuery,
  type Row,
  type SignedClient,
  type StoredTable,
  type Where,
} from './tables.ts';

/** Reads a signed table without verification. Use it only where no row gives authority. */
export function claimedRows<Table extends StoredTable>(
  db: Pick<SignedClient, (typeof delegates)[Table]>,
  table: Table,
): ClaimedRows<Table> {
  return new ClaimedRows(db, table);
}

/** The operations of a Prisma delegate that this folder uses. */
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

/** Reads columns without verification: names, ids and states that give no authority. */
export class ClaimedRows<Table extends StoredTable> {
  protected readonly table: Table;
  protected readonly delegate: Delegate;

  constructor(db: Pick<SignedClient, (typeof delegates)[Table]>, table: Table) {
    this.table = table;
    this.delegate = db[delegates[table]] as unknown as Delegate;
  }

  /** Reads columns unverified. Use them only where a forged row gains nothing. */
  async findClaims<Column extends keyof Row<Table> & string>(
    columns: readonly Column[],
    query: ListQuery<Table>,
  ): Promise<readonly Readonly<Pick<Row<Table>, Column>>[]> {
    const select = Object.fromEntries(columns.map((column) => [column, true]));
    return (await this.delegate.findMany({ ...query, select })) as Pick<Row<Table>, Column>[];
  }

  /** Counts rows, including forged ones. */
  count(where: Where<Table>): Promise<number> {
    return this.delegate.count({ where });
  }
}
