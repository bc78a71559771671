import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../../../control-plane/platform/store/open.ts';
import { StoreError } from '../../../../control-plane/platform/store/store-error.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-data-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const openEmbedded = (dataDir: string) =>
  openStore({ databaseUrl: undefined, dataDir, log: silentLog });
const openAt = (databaseUrl: string) => openStore({ databaseUrl, dataDir: '', log: silentLog });

async function holdInOtherProcess(dataDir: string, tenantId: string): Promise<ChildProcess> {
  const program = join(import.meta.dirname, '../../../support/control-plane/hold-store.ts');
  const child = spawn(process.execPath, [program, dataDir, tenantId], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  cleanups.push(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child;
}

const refusal = async (opening: Promise<Store>): Promise<StoreError> => {
  const error = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreError);
  return error as StoreError;
};

describe('the embedded store', () => {
  it('keeps its state across a restart', async () => {
    const folder = dataFolder();
    const before = await openEmbedded(folder);
    expect(before.kind).toBe('embedded');
    await before.db.tenant.create({ data: { id: 't1', name: 'one' } });
    await before.close();
    const after = await openEmbedded(folder);
    expect(await after.db.tenant.findMany()).toMatchObject([{ id: 't1', mode: 'enforce' }]);
    expect((await after.pool.query('SELECT id FROM tenant')).rows).toEqual([{ id: 't1' }]);
    await after.close();
  });

  it('refuses a second process on the same data, and names the first process', async () => {
    const folder = dataFolder();
    const holder = await holdInOtherProcess(folder, 't1');
    const error = await refusal(openEmbedded(folder));
    expect(error.message).toContain(`in use by another Sallyport (process ${holder.pid})`);
  });

  it('refuses to open twice in one process', async () => {
    const folder = dataFolder();
    const store = await openEmbedded(folder);
    expect((await refusal(openEmbedded(folder))).message).toContain('in use by another');
    await store.close();
  });

  it('survives SIGKILL, and the lock of the killed process does not prevent a start', async () => {
    const folder = dataFolder();
    for (const tenantId of ['t1', 't2']) {
      const holder = await holdInOtherProcess(folder, tenantId);
      holder.kill('SIGKILL');
      await once(holder, 'exit');
    }
    const store = await openEmbedded(folder);
    expect(await store.db.tenant.findMany({ orderBy: { id: 'asc' } })).toMatchObject([
      { id: 't1' },
      { id: 't2' },
    ]);
    await store.close();
  });

  it('listens at an address that only its own user can connect to', async () => {
    const folder = dataFolder();
    const store = await openEmbedded(folder);
    expect(statSync(join(folder, 'run')).mode & 0o777).toBe(0o700);
    await store.close();
  });

  it('works in a folder whose path is longer than a Unix socket path may be', async () => {
    const folder = join(dataFolder(), 'long'.repeat(30));
    const store = await openEmbedded(folder);
    expect(await store.db.tenant.count()).toBe(0);
    await store.close();
  });

  it('serves more concurrent callers than it has connections', async () => {
    const store = await openEmbedded(dataFolder());
    const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);
    await Promise.all(
      ids.map((id) =>
        store.db.$transaction(async (tx) => {
          await tx.tenant.create({ data: { id, name: id } });
          await tx.tenant.update({ where: { id }, data: { name: 'renamed' } });
        }),
      ),
    );
    expect(await store.db.tenant.count({ where: { name: 'renamed' } })).toBe(40);
    await store.close();
  });

  it('continues after a failed statement, inside and outside a transaction', async () => {
    const store = await openEmbedded(dataFolder());
    await expect(store.pool.query('SELECT nothing FROM nowhere')).rejects.toThrow(/nowhere/);
    await expect(
      store.db.$transaction(async (tx) => {
        await tx.tenant.create({ data: { id: 't1', name: 'one' } });
        throw new Error('changed my mind');
      }),
    ).rejects.toThrow('changed my mind');
    expect(await store.db.tenant.count()).toBe(0);
    await store.close();
  });
});

describe('a PostgreSQL database of the operator', () => {
  it('is migrated and opened', async () => {
    const database = await freshDatabase();
    cleanups.push(() => database.drop());
    const store = await openAt(database.url);
    expect(store.kind).toBe('postgres');
    await store.db.tenant.create({ data: { id: 't1', name: 'one' } });
    expect((await store.pool.query('SELECT id FROM tenant')).rows).toEqual([{ id: 't1' }]);
    await store.close();
  });

  it('gives a clear error without the password if it is unreachable', async () => {
    const error = await refusal(openAt('postgresql://me:hunter2@127.0.0.1:1/x'));
    expect(error.message).toMatch(/cannot be used: .*ECONNREFUSED.*Check DATABASE_URL/);
    expect(error.message).not.toContain('hunter2');
  });

  it('gives a clear error without the password if the URL has another scheme', async () => {
    const error = await refusal(openAt('mysql://me:hunter2@127.0.0.1/x'));
    expect(error.message).toContain('must begin with postgresql://');
    expect(error.message).not.toContain('hunter2');
  });

  it('gives a clear error if the database does not exist', async () => {
    const database = await freshDatabase();
    await database.drop();
    expect((await refusal(openAt(database.url))).message).toMatch(/database ".*" does not exist/);
  });

  it('is refused if a newer version migrated it', async () => {
    const database = await freshDatabase();
    cleanups.push(() => database.drop());
    await (await openAt(database.url)).close();
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
       VALUES ('x', 'y', '20991231235959_future', now(), 1)`,
    );
    await client.end();
    expect((await refusal(openAt(database.url))).message).toContain('newer version of Sallyport');
  });
});
