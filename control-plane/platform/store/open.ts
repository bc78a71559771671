import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import type { Log } from '../../../shared/base/log.ts';
import { PrismaClient } from './generated/client.ts';
import { migrate } from './migrate.ts';
import { StoreError } from './store-error.ts';

export interface Store {
  readonly db: PrismaClient;
  /**
   * The pool under `db`. In embedded mode it has one connection, so code that holds this connection
   * must not wait for another one.
   */
  readonly pool: pg.Pool;
  readonly kind: 'embedded' | 'postgres';
  /** Names of the migrations that this start applied. */
  readonly migrations: readonly string[];
  close(): Promise<void>;
}

interface StoreOptions {
  /** Undefined for embedded Postgres, which stores its data on disk under `dataDir`. */
  readonly databaseUrl: string | undefined;
  readonly dataDir: string;
  readonly log: Log;
}

/**
 * Opens the database and applies pending migrations. Throws a `StoreError` with a message for the
 * operator.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  return options.databaseUrl === undefined
    ? openEmbedded(options)
    : openPostgres(options.databaseUrl, options.log);
}

async function openPostgres(databaseUrl: string, log: Log): Promise<Store> {
  refuseWrongUrl(databaseUrl);
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 16,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    // A process that hangs in a transaction must not block a tenant's ledger permanently.
    idle_in_transaction_session_timeout: 30_000,
    statement_timeout: 60_000,
    application_name: 'sallyport',
  });
  return prepare({ pool, kind: 'postgres', log, end: () => pool.end() });
}

async function openEmbedded({ dataDir, log }: StoreOptions): Promise<Store> {
  const { startEmbedded } = await import('./embedded.ts');
  const server = await startEmbedded(dataDir);
  const pool = new pg.Pool({
    host: server.host,
    user: 'postgres',
    database: 'postgres',
    max: 1,
    connectionTimeoutMillis: 30_000,
    // Keeps idle connections, because reconnecting under load costs more.
    idleTimeoutMillis: 0,
  });
  const end = async () => {
    await pool.end();
    await server.close();
  };
  return prepare({ pool, kind: 'embedded', log, end });
}

interface Preparation {
  readonly pool: pg.Pool;
  readonly kind: Store['kind'];
  readonly log: Log;
  readonly end: () => Promise<void>;
}

async function prepare({ pool, kind, log, end }: Preparation): Promise<Store> {
  // Without a handler, this error would end the process. The pool replaces the broken connection at
  // its next use.
  pool.on('error', (error) => log.warn({ err: error }, 'a database connection broke'));
  const migrations = await bringUpToDate(pool, log).catch(async (error: unknown) => {
    await end();
    throw toStoreError(error);
  });
  const adapter = new PrismaPg(pool);
  const db = new PrismaClient({
    adapter,
    transactionOptions: { maxWait: 10_000, timeout: 20_000 },
  });
  const close = async () => {
    await db.$disconnect();
    await end();
  };
  return { db, pool, kind, migrations, close };
}

async function bringUpToDate(pool: pg.Pool, log: Log): Promise<readonly string[]> {
  const client = await pool.connect();
  try {
    const applied = await migrate(client);
    if (applied.length > 0) log.info({ migrations: applied }, 'migrated the database');
    return applied;
  } finally {
    client.release();
  }
}

function refuseWrongUrl(databaseUrl: string): void {
  // The error messages omit the URL, because it contains the password.
  const scheme = /^([a-z]+):\/\//i.exec(databaseUrl)?.[1]?.toLowerCase();
  if (scheme === 'postgres' || scheme === 'postgresql') return;
  throw new StoreError(
    'DATABASE_URL must begin with postgresql://, as in postgresql://user:password@host:5432/name.',
  );
}

function toStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const reason = error instanceof Error ? reasonOf(error) : String(error);
  return new StoreError(
    `The database cannot be used: ${reason}. Check DATABASE_URL and that the server runs.`,
    {
      cause: error,
    },
  );
}

/**
 * Returns the text of an error. An `AggregateError` (several addresses refused) has its text in its
 * parts.
 */
function reasonOf(error: Error): string {
  if (error instanceof AggregateError) {
    return error.errors
      .map((part) => (part instanceof Error ? part.message : String(part)))
      .join(', ');
  }
  return error.message;
}
