import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../../../control-plane/platform/store/open.ts';
import { isConflict, transaction } from '../../../../control-plane/platform/store/transaction.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let store: Store;

beforeAll(async () => {
  database = await freshDatabase();
  store = await openStore({ databaseUrl: database.url, dataDir: '', log: silentLog });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});
beforeEach(async () => {
  await store.db.tenant.deleteMany();
  await store.db.tenant.createMany({ data: ['a', 'b'].map((id) => ({ id, name: '0' })) });
});

const names = async () =>
  (await store.db.tenant.findMany({ orderBy: { id: 'asc' } })).map(({ name }) => name);

/** Returns a function that makes its first caller wait for a second caller. */
function meetingPoint() {
  let arrived = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  return () => {
    if (++arrived >= 2) resolve();
    return promise;
  };
}

describe('a transaction', () => {
  it('commits completely or not at all', async () => {
    await transaction(store.db, (tx) => tx.tenant.updateMany({ data: { name: '1' } }));
    expect(await names()).toEqual(['1', '1']);
    const failing = transaction(store.db, async (tx) => {
      await tx.tenant.updateMany({ data: { name: '2' } });
      throw new Error('changed my mind');
    });
    await expect(failing).rejects.toThrow('changed my mind');
    expect(await names()).toEqual(['1', '1']);
  });

  it('is retried if a deadlock aborted it, for raw SQL and for Prisma writes', async () => {
    for (const isRaw of [false, true]) {
      const meet = meetingPoint();
      let runs = 0;
      const swap = (first: string, second: string) =>
        transaction(store.db, async (tx) => {
          runs++;
          const rename = (id: string) =>
            isRaw
              ? tx.$executeRaw`UPDATE tenant SET name = (name::int + 1)::text WHERE id = ${id}`
              : tx.tenant.update({ where: { id }, data: { name: String(runs) } });
          await rename(first);
          await meet();
          await rename(second);
        });
      await Promise.all([swap('a', 'b'), swap('b', 'a')]);
      expect(runs).toBe(3);
    }
  });

  it('is retried after a serialisation failure', async () => {
    const meet = meetingPoint();
    let runs = 0;
    const addOne = () =>
      transaction(store.db, async (tx) => {
        runs++;
        await tx.$executeRaw`SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`;
        const { name } = await tx.tenant.findUniqueOrThrow({ where: { id: 'a' } });
        await meet();
        await tx.tenant.update({ where: { id: 'a' }, data: { name: String(Number(name) + 1) } });
      });
    await Promise.all([addOne(), addOne()]);
    expect(await names()).toEqual(['2', '0']);
    expect(runs).toBe(3);
  });

  it('is not retried after an error that is not a conflict, and is attempted at most five times', async () => {
    let runs = 0;
    const failing = transaction(store.db, async (tx) => {
      runs++;
      await tx.tenant.create({ data: { id: 'a', name: 'taken' } });
    });
    await expect(failing).rejects.toMatchObject({ code: 'P2002' });
    expect(runs).toBe(1);
    const hopeless = transaction(store.db, async () => {
      runs++;
      throw Object.assign(new Error('lost again'), { code: '40001' });
    });
    await expect(hopeless).rejects.toThrow('lost again');
    expect(runs).toBe(6);
  });

  it('treats an error as a conflict only if it has a SQLSTATE code for conflicts', () => {
    expect(isConflict({ code: '40P01' })).toBe(true);
    for (const other of [
      undefined,
      null,
      'text',
      new Error('x'),
      { code: '23505' },
      { code: 40001 },
    ]) {
      expect(isConflict(other)).toBe(false);
    }
  });
});
