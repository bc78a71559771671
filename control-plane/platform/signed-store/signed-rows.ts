import { signRow } from '../integrity/sign-row.ts';
import { snakeCase } from '../integrity/signed-json.ts';
import { Prisma } from '../store/generated/client.ts';
import { signedColumns } from '../store/signed-columns.ts';
import { asSigned, SignedReader, type Store } from './signed-reader.ts';
import type {
  Changes,
  Key,
  NewRow,
  Row,
  StoredTable,
  UniqueQuery,
  UnsignedChanges,
  Where,
  WholeRow,
} from './tables.ts';
import { claimsOf, type Unverified, unverified, type Verified } from './verified.ts';

/**
 * Returns the rows of a signed table, for a client or a transaction. Reading verifies rows, and
 * writing signs them (decision 0233).
 */
export function signedRows<Table extends StoredTable>(
  { db, guard }: Store,
  table: Table,
): SignedRows<Table> {
  return new SignedRows({ db, guard }, table);
}

/** Reads and writes rows. A row must be changed in the same transaction that read it. */
export class SignedRows<Table extends StoredTable> extends SignedReader<Table> {
  readonly #store: Store;

  constructor(store: Store, table: Table) {
    super(store, table);
    this.#store = store;
  }

  /** Inserts a row and signs it with the values that the database gave it. */
  async create(data: NewRow<Table>): Promise<Verified<Row<Table>>> {
    const created = (await this.delegate.create({ data })) as Row<Table>;
    return this.#signStored(created);
  }

  /** Like `create`, but returns undefined if a row with this key exists. */
  async createOnce(data: NewRow<Table>): Promise<Verified<Row<Table>> | undefined> {
    const { count } = await this.delegate.createMany({ data: [data], skipDuplicates: true });
    if (count === 0) return undefined;
    const [created] = (await this.delegate.findMany({ where: this.#keyOf(data) })) as Row<Table>[];
    if (created === undefined) throw new Error(`a new row of ${this.table} does not exist`);
    return this.#signStored(created);
  }

  /**
   * Signs and inserts a row whose signed values are all given. Returns false if a row with this key
   * exists.
   */
  async insert(row: WholeRow<Table>): Promise<boolean> {
    const data = [{ ...row, mac: this.#macOf(row) }];
    const { count } = await this.delegate.createMany({ data, skipDuplicates: true });
    return count === 1;
  }

  /**
   * Writes a row with all its signed columns. Keeps no value of an existing row, so the existing
   * row may be forged.
   */
  async put(row: WholeRow<Table>): Promise<Verified<Row<Table>>> {
    const key = signedColumns[this.table].key as readonly string[];
    const whole = { ...row, mac: this.#macOf(row) };
    const unique = key.length === 1 ? this.#keyOf(row) : { [key.join('_')]: this.#keyOf(row) };
    const stored = await this.delegate.upsert({ where: unique, create: whole, update: whole });
    return { ...stored, ...whole } as unknown as Verified<Row<Table>>;
  }

  /**
   * Changes a verified row. The new signature covers the verified values and the changes, but
   * nothing that another writer stored in between (decision 0184).
   */
  async update<Read extends Row<Table>>(
    row: Verified<Read>,
    changes: Changes<Table>,
  ): Promise<Verified<Read>> {
    const changed = await this.updateIf(row, {}, changes);
    if (changed === undefined) throw new Error(`a row of ${this.table} does not exist any more`);
    return changed;
  }

  /**
   * Like `update`, but changes the row only if the stored row still meets a condition. Otherwise
   * returns undefined.
   */
  async updateIf<Read extends Row<Table>>(
    row: Verified<Read>,
    condition: Where<Table>,
    changes: Changes<Table>,
  ): Promise<Verified<Read> | undefined> {
    const changed = { ...row, ...changes };
    const mac = this.#macOf(changed);
    const isChanged = await this.#change(row, condition, { ...changes, mac });
    return isChanged ? ({ ...changed, mac } as unknown as Verified<Read>) : undefined;
  }

  /**
   * Removes authority from a row, even from a forged one, if the row still meets the condition;
   * otherwise returns undefined. `forged` decides what happens to a forged row: it keeps its
   * invalid signature (`keep`), or is signed because it no longer has an effect (`sign`).
   */
  async retire(
    row: Unverified<Row<Table>>,
    condition: Where<Table>,
    { changes, forged }: { readonly changes: Changes<Table>; readonly forged: 'keep' | 'sign' },
  ): Promise<Row<Table> | undefined> {
    const claimed = claimsOf(row);
    const changed = { ...claimed, ...changes };
    const isSigned = forged === 'sign' || this.isValid(row);
    const written = isSigned ? { ...changes, mac: this.#macOf(changed) } : changes;
    const isChanged = await this.#change(claimed, condition, written);
    return isChanged ? { ...changed, ...written } : undefined;
  }

  /**
   * Subtracts one from a column if the row meets the condition; check and change are one statement
   * under the row's lock. Afterwards, call `signChange` in the same transaction to sign the row.
   */
  async decrement(condition: Where<Table>, column: keyof Row<Table> & string): Promise<boolean> {
    const data = { [column]: { decrement: 1 } };
    return (await this.delegate.updateMany({ where: condition, data })).count > 0;
  }

  /**
   * Signs a row that a conditional statement of this transaction has just changed and thereby
   * locked. First verifies the row with its previous values: `before` returns the previous values
   * of the changed columns.
   */
  async signChange(
    query: UniqueQuery<Table>,
    before: (row: Row<Table>) => Changes<Table>,
  ): Promise<Verified<Row<Table>>> {
    const row = (await this.delegate.findUnique(query)) as Row<Table> | null;
    if (row === null) throw new Error(`a row of ${this.table} does not exist any more`);
    this.verify(unverified({ ...row, ...before(row) } as Row<Table>));
    return this.#signStored(row);
  }

  /** Changes columns that no signature covers. Returns the number of changed rows. */
  async updateUnsigned(where: Where<Table>, data: UnsignedChanges<Table>): Promise<number> {
    return (await this.delegate.updateMany({ where, data })).count;
  }

  /** Locks a row, by its key, until the transaction ends. */
  async lock(key: Key<Table>): Promise<void> {
    const isKey = matches(key as Readonly<Record<string, unknown>>);
    await this.#store.db.$executeRaw`
      select 1 from ${Prisma.raw(this.table)} where ${isKey} for update`;
  }

  /**
   * Deletes rows, including forged ones. The integrity sweep reports a deleted row that the ledger
   * still requires.
   */
  async remove(where: Where<Table>): Promise<void> {
    await this.delegate.deleteMany({ where });
  }

  async #signStored(row: Row<Table>): Promise<Verified<Row<Table>>> {
    const { db, guard } = this.#store;
    const signed = await signRow(db, { guard }, this.table, asSigned<Table>(row));
    return signed as unknown as Verified<Row<Table>>;
  }

  #macOf(row: object): string {
    return this.#store.guard.sign(this.table, asSigned<Table>(row));
  }

  #keyOf(row: object): object {
    const values = row as Readonly<Record<string, unknown>>;
    const key: readonly string[] = signedColumns[this.table].key;
    return Object.fromEntries(key.map((column) => [column, values[column]]));
  }

  async #change(row: object, condition: object, changes: object): Promise<boolean> {
    const where = { ...condition, ...this.#keyOf(row) };
    const data = Object.fromEntries(Object.entries(changes).map(stored));
    return (await this.delegate.updateMany({ where, data })).count > 0;
  }
}

function matches(columns: Readonly<Record<string, unknown>>): Prisma.Sql {
  const parts = Object.entries(columns).map(
    ([column, value]) => Prisma.sql`${Prisma.raw(snakeCase(column))} = ${value}`,
  );
  return Prisma.join(parts, ' and ');
}

/**
 * Converts null in a JSON column to `DbNull`, because Prisma writes an empty JSON column in this
 * way.
 */
function stored([column, value]: [string, unknown]): [string, unknown] {
  return [column, column === 'grantLimits' && value === null ? Prisma.DbNull : value];
}
