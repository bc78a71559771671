import { hash, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientBase } from 'pg';
import { StoreError } from './store-error.ts';

// Advisory lock that Prisma uses for migrations. This code uses the same lock, so that both exclude
// each other.
const migrationLock = 72_707_369;
const lockWaitMs = 60_000;

const historyTable = `
CREATE TABLE IF NOT EXISTS _prisma_migrations (
  id                  VARCHAR(36) PRIMARY KEY NOT NULL,
  checksum            VARCHAR(64) NOT NULL,
  finished_at         TIMESTAMPTZ,
  migration_name      VARCHAR(255) NOT NULL,
  logs                TEXT,
  rolled_back_at      TIMESTAMPTZ,
  started_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
  applied_steps_count INTEGER NOT NULL DEFAULT 0
)`;

interface Applied {
  readonly name: string;
  readonly checksum: string;
  readonly finished: boolean;
}

/**
 * Applies all pending migrations or none, and returns their names. Concurrent programs wait for
 * each other. If the database is up to date, it is only read, so the service needs no right to
 * change tables. Throws a `StoreError` if the applied migrations are not a prefix of this version's
 * migrations.
 */
export async function migrate(
  client: ClientBase,
  migrations: readonly Migration[] = readMigrations(),
): Promise<readonly string[]> {
  if ((await pendingOf(client, migrations)).length === 0) return [];
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL lock_timeout = ${lockWaitMs}`);
    await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
    // Reads the pending migrations again, because another program may have migrated during the
    // wait.
    const pending = await pendingOf(client, migrations);
    for (const migration of pending) await apply(client, migration);
    await client.query('COMMIT');
    return pending.map(({ name }) => name);
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

async function pendingOf(
  client: ClientBase,
  migrations: readonly Migration[],
): Promise<readonly Migration[]> {
  const applied = await readHistory(client);
  refuseForeignHistory(applied, migrations);
  const names = new Set(applied.map(({ name }) => name));
  return migrations.filter(({ name }) => !names.has(name));
}

async function readHistory(client: ClientBase): Promise<readonly Applied[]> {
  const { rows: tables } = await client.query<{ history: boolean; others: number }>(
    `SELECT to_regclass('_prisma_migrations') IS NOT NULL AS history,
            count(*)::int AS others
       FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = current_schema() AND relkind IN ('r', 'p', 'v', 'm')`,
  );
  if (tables[0]?.history) {
    const { rows } = await client.query<Applied>(
      `SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS finished
         FROM _prisma_migrations WHERE rolled_back_at IS NULL ORDER BY started_at, migration_name`,
    );
    return rows;
  }
  if (tables[0] === undefined || tables[0].others === 0) return [];
  throw new StoreError(
    'The database is not empty and was not made by Sallyport. Give Sallyport a database of its own.',
  );
}

function refuseForeignHistory(applied: readonly Applied[], migrations: readonly Migration[]): void {
  const known = new Map(migrations.map((migration) => [migration.name, migration]));
  for (const { name, checksum, finished } of applied) {
    const migration = known.get(name);
    if (migration === undefined) {
      throw new StoreError(
        `The database was migrated by a newer version of Sallyport (migration ${name} is unknown ` +
          'here). Run that version or a later one.',
      );
    }
    if (!finished) {
      throw new StoreError(
        `Migration ${name} began and did not finish, under another tool. Restore the database, or ` +
          `mark it with: prisma migrate resolve --rolled-back ${name}`,
      );
    }
    if (checksum !== migration.checksum) {
      throw new StoreError(
        `Migration ${name} was edited after it was applied to this database: its checksum is ` +
          `${migration.checksum}, applied was ${checksum}. Restore the file; a change of the schema ` +
          'is a new migration.',
      );
    }
  }
}

async function apply(client: ClientBase, { name, sql, checksum }: Migration): Promise<void> {
  const { rows } = await client.query<{ at: string }>('SELECT clock_timestamp()::text AS at');
  try {
    await client.query(historyTable);
    await client.query(sql);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StoreError(
      `Migration ${name} failed and left the database as it was: ${reason}. If it was denied, ` +
        'migrate as the role that owns the tables.',
      { cause },
    );
  }
  await client.query(
    `INSERT INTO _prisma_migrations
       (id, checksum, migration_name, started_at, finished_at, applied_steps_count)
     VALUES ($1, $2, $3, $4, clock_timestamp(), 1)`,
    [randomUUID(), checksum, name, rows[0]?.at],
  );
}

export interface Migration {
  /** Name of the migration's folder. The time stamp in it defines the order. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file in hex, as Prisma stores it. */
  readonly checksum: string;
}

const migrationsFolder = join(import.meta.dirname, '../../../prisma/migrations');

/** Returns the migrations of this version, in order. */
export function readMigrations(folder: string = migrationsFolder): readonly Migration[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
    .map((name) => {
      const sql = readFileSync(join(folder, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: hash('sha256', sql, 'hex') };
    });
}
