import { hash } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Migration,
  migrate,
  readMigrations,
} from '../../../../control-plane/platform/store/migrate.ts';
import { StoreError } from '../../../../control-plane/platform/store/store-error.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let client: pg.Client;

const connect = async () => {
  const connected = new pg.Client({ connectionString: database.url });
  await connected.connect();
  return connected;
};
const migration = (name: string, sql: string): Migration => ({
  name,
  sql,
  checksum: hash('sha256', sql, 'hex'),
});
const first = migration('1_first', 'CREATE TABLE one (id INT); INSERT INTO one VALUES (1);');
const second = migration('2_second', 'CREATE TABLE two (id INT);');
const broken = migration('3_broken', 'CREATE TABLE three (id INT); SELECT nothing FROM nowhere;');

async function tables(): Promise<string[]> {
  const { rows } = await client.query<{ tablename: string }>(
    `SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`,
  );
  return rows.map(({ tablename }) => tablename);
}

beforeEach(async () => {
  database = await freshDatabase();
  client = await connect();
});
afterEach(async () => {
  await client.end();
  await database.drop();
});

describe('migrate', () => {
  it('applies each pending migration once, in order', async () => {
    expect(await migrate(client, [first])).toEqual(['1_first']);
    expect(await migrate(client, [first, second])).toEqual(['2_second']);
    expect(await migrate(client, [first, second])).toEqual([]);
    expect(await tables()).toEqual(['_prisma_migrations', 'one', 'two']);
  });

  it('writes a history that Prisma’s own tool can read: name, SHA-256 of the file, one finished step', async () => {
    await migrate(client);
    const { rows } = await client.query(
      'SELECT *, finished_at >= started_at AS finished FROM _prisma_migrations ORDER BY migration_name',
    );
    expect(rows).toHaveLength(readMigrations().length);
    for (const [index, { name, sql }] of readMigrations().entries()) {
      expect(rows[index]).toMatchObject({
        migration_name: name,
        checksum: hash('sha256', sql, 'hex'),
        finished: true,
        rolled_back_at: null,
        logs: null,
        applied_steps_count: 1,
      });
    }
  });

  it('rolls back all pending migrations if one fails', async () => {
    await migrate(client, [first]);
    await expect(migrate(client, [first, second, broken])).rejects.toThrow(
      /Migration 3_broken failed and left the database as it was: relation "nowhere" does not exist/,
    );
    expect(await tables()).toEqual(['_prisma_migrations', 'one']);
    expect(await migrate(client, [first, second])).toEqual(['2_second']);
  });

  it('refuses a migration that was edited after it was applied', async () => {
    await migrate(client, [first, second]);
    const edited = migration(first.name, `${first.sql} -- edited`);
    await expect(migrate(client, [edited, second])).rejects.toThrow(/1_first was edited after/);
    await expect(migrate(client, [edited, second])).rejects.toBeInstanceOf(StoreError);
  });

  it('refuses a database that a newer version migrated', async () => {
    await migrate(client, [first, second]);
    await expect(migrate(client, [first])).rejects.toThrow(
      /newer version of Sallyport \(migration 2_second is unknown here\)/,
    );
  });

  it('refuses a database in which another tool left a migration unfinished', async () => {
    await migrate(client, [first]);
    await client.query('UPDATE _prisma_migrations SET finished_at = NULL');
    await expect(migrate(client, [first, second])).rejects.toThrow(/began and did not finish/);
    await client.query('UPDATE _prisma_migrations SET rolled_back_at = now()');
    await client.query('DROP TABLE one');
    expect(await migrate(client, [first, second])).toEqual(['1_first', '2_second']);
  });

  it('refuses a database that contains other tables', async () => {
    await client.query('CREATE TABLE customer (id INT)');
    await expect(migrate(client, [first])).rejects.toThrow(
      /not empty and was not made by Sallyport/,
    );
    expect(await tables()).toEqual(['customer']);
  });

  it('runs in only one of several programs that start at the same time; the others wait', async () => {
    const clients = await Promise.all([connect(), connect(), connect(), connect()]);
    const applied = await Promise.all(clients.map((each) => migrate(each)));
    expect(applied.flat()).toEqual(readMigrations().map(({ name }) => name));
    await Promise.all(clients.map((each) => each.end()));
  });

  it('needs no privilege to alter tables if the database is up to date', async () => {
    await migrate(client);
    const role = `service_${database.url.slice(-8)}`;
    await client.query(
      `CREATE ROLE ${role}; GRANT SELECT ON _prisma_migrations TO ${role}; SET ROLE ${role}`,
    );
    expect(await migrate(client)).toEqual([]);
    const later = [...readMigrations(), migration('9_later', 'CREATE TABLE later (id INT)')];
    await expect(migrate(client, later)).rejects.toThrow(
      /permission denied.*migrate as the role that owns/s,
    );
    await client.query(`RESET ROLE; DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
});
