import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../../../control-plane/platform/store/open.ts';
import { queryPrepared } from '../../../../control-plane/platform/store/prepared-statement.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

const double = { name: 'kept-double', text: 'SELECT $1::int * 2 AS n' };
const negate = { name: 'kept-negate', text: 'SELECT -$1::int AS n' };

const numbers = Array.from({ length: 100 }, (_, index) => index);

const manyAtOnce = (pool: Pool) =>
  Promise.all(
    numbers.map(async (number) => {
      const [row] = await queryPrepared<{ n: number }>(pool, number % 2 ? double : negate, [
        number,
      ]);
      return row?.n;
    }),
  );

describe.each(['Postgres', 'the embedded database'])('queryPrepared on %s', (which) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'prepared-statement-'));
  let store: Store;
  beforeAll(async () => {
    const databaseUrl = which === 'Postgres' ? (await freshDatabase()).url : undefined;
    store = await openStore({ databaseUrl, dataDir, log: silentLog });
  });
  afterAll(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true });
  });

  it('returns to each concurrent caller the result of its own statement, even over shared sessions', async () => {
    const expected = numbers.map((number) => (number % 2 ? number * 2 : 0 - number));
    expect(await manyAtOnce(store.pool)).toEqual(expected);
    expect(await manyAtOnce(store.pool)).toEqual(expected);
  });

  it('throws the database’s error if a statement fails', async () => {
    const wrong = { name: 'kept-wrong', text: 'SELECT 1 / $1::int' };
    await expect(queryPrepared(store.pool, wrong, [0])).rejects.toThrow('division by zero');
  });
});

it('a statement is prepared once for each connection of Postgres', async () => {
  const { url } = await freshDatabase();
  const store = await openStore({ databaseUrl: url, dataDir: '', log: silentLog });
  try {
    await queryPrepared(store.pool, double, [1]);
    const { rows } = await store.pool.query('SELECT name FROM pg_prepared_statements');
    expect(rows).toContainEqual({ name: 'kept-double' });
  } finally {
    await store.close();
  }
});
