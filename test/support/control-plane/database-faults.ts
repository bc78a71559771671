import type { TestServices } from './services.ts';

export interface DatabaseFaults {
  /** Makes the table unavailable. */
  withoutTable(table: string): Promise<void>;
  /** Makes every write to the table fail, as on a full disk. */
  unwritable(table: string): Promise<void>;
  /** Registers a statement that repairs the database after the test. */
  onMend(statement: string): void;
  /** Repairs the database. */
  mend(): Promise<void>;
}

/** Causes real faults in a real database. The test must repair them with `mend`. */
export function databaseFaults({ pool }: Pick<TestServices, 'pool'>): DatabaseFaults {
  const undoing: string[] = [];
  const fault = async (statement: string, undo: string) => {
    await pool.query(statement);
    undoing.push(undo);
  };
  return {
    withoutTable: (table) =>
      fault(
        `alter table ${table} rename to ${table}_away`,
        `alter table ${table}_away rename to ${table}`,
      ),
    unwritable: async (table) => {
      await pool.query(
        `create or replace function refuse_write() returns trigger language plpgsql as
           'begin raise exception ''could not extend file: No space left on device'' using errcode = ''53100''; end'`,
      );
      await fault(
        `create trigger refuse_write before insert on ${table} for each row execute function refuse_write()`,
        `drop trigger refuse_write on ${table}`,
      );
    },
    onMend: (statement) => undoing.push(statement),
    mend: async () => {
      for (const undo of undoing.splice(0).reverse()) await pool.query(undo);
    },
  };
}
