import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { transaction } from '../../control-plane/platform/store/transaction.ts';
import { generateSigningKey } from '../../shared/crypto/signing-key.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { until } from '../support/base/until.ts';
import { anEvent, openLedger, signingKeysOf, type TestLedger } from '../support/ledger/ledger.ts';
import { type CutProxy, startCutProxy } from '../support/programs/cut-proxy.ts';
import { freshDatabase, type PostgresServer, startPostgres } from '../support/programs/postgres.ts';

const key = generateSigningKey();
const failed = { code: 'evidence.seal_failed' };
let database: Awaited<ReturnType<typeof freshDatabase>>;

async function sealedEvents(ledger: TestLedger): Promise<readonly EvidenceEvent[]> {
  const { rows } = await ledger.store.pool.query<{ canonical: string }>(
    `SELECT canonical FROM evidence_row WHERE tenant_id = 't' ORDER BY position`,
  );
  return rows.map(({ canonical }) => JSON.parse(canonical));
}

async function expectSound(ledger: TestLedger): Promise<void> {
  expect(await ledger.verify('t')).toMatchObject({ ok: true, problem: null });
  const { rows } = await ledger.store.pool.query('SELECT * FROM event_outbox');
  expect(rows).toEqual([]);
}

describe('if the signing key is unavailable', () => {
  let ledger: TestLedger;
  let failures = 0;

  beforeEach(async () => {
    failures = 0;
    database = await freshDatabase();
    const signingKeys = {
      ...signingKeysOf(key),
      async active() {
        if (failures > 0) {
          failures--;
          throw new Error('the key service does not answer');
        }
        return key;
      },
    };
    ledger = await openLedger({ databaseUrl: database.url, signingKeys });
  });
  afterEach(async () => {
    failures = 0;
    await ledger.drain();
    await expectSound(ledger);
    await ledger.close();
    await database.drop();
  });

  it('for a moment, sealing is retried and then succeeds', async () => {
    failures = 2;
    expect(await ledger.seal('t', anEvent())).toMatchObject({ position: 1 });
    expect((await sealedEvents(ledger))[0]?.data).not.toHaveProperty(['evidence.dead_lettered']);
  });

  it('for a longer time, sealing fails, and the event is sealed later as dead-lettered', async () => {
    failures = 3;
    const event = anEvent();
    await expect(ledger.seal('t', event)).rejects.toMatchObject(failed);
    await ledger.drain();
    expect(await sealedEvents(ledger)).toMatchObject([
      { id: event.id, data: { ...event.data, 'evidence.dead_lettered': true } },
    ]);
    // A sender that repeats the event gets this row, not a conflict.
    expect((await ledger.seal('t', event)).position).toBe(1);
  });

  it('an event whose sender keeps it is not sealed later, because the sender sends it again', async () => {
    failures = 3;
    const event = anEvent();
    expect(await ledger.sealKept('t', [event])).toMatchObject([
      { status: 'rejected', reason: failed },
    ]);
    await ledger.drain();
    expect(await sealedEvents(ledger)).toEqual([]);
    expect(await ledger.sealKept('t', [event])).toMatchObject([{ status: 'fulfilled' }]);
    expect((await sealedEvents(ledger))[0]?.data).not.toHaveProperty(['evidence.dead_lettered']);
  });

  it('a change remains committed, and the change’s event is sealed later as dead-lettered', async () => {
    const event = anEvent({ type: 'policy.published' });
    await transaction(ledger.store.db, (tx) => ledger.record(tx, 't', event));
    failures = 3;
    await expect(ledger.sealed('t', event.id)).rejects.toMatchObject(failed);
    await ledger.drain();
    expect(await sealedEvents(ledger)).toMatchObject([
      { id: event.id, data: { 'evidence.dead_lettered': true } },
    ]);
    expect((await ledger.sealed('t', event.id)).position).toBe(1);
  });

  it('all events of a batch fail, and each event is sealed exactly once later', async () => {
    failures = 3;
    const events = Array.from({ length: 20 }, () => anEvent());
    await expect(ledger.sealAll('t', events)).rejects.toMatchObject(failed);
    await ledger.drain();
    expect((await sealedEvents(ledger)).map(({ id }) => id)).toEqual(events.map(({ id }) => id));
  });
});

describe('if the response of the database is lost', () => {
  let proxy: CutProxy;
  let ledger: TestLedger;

  beforeEach(async () => {
    database = await freshDatabase();
    proxy = await startCutProxy(database.url);
    ledger = await openLedger({ databaseUrl: proxy.url, key });
    await ledger.seal('t', anEvent());
  });
  afterEach(async () => {
    await ledger.drain();
    await expectSound(ledger);
    await ledger.close();
    await proxy.close();
    await database.drop();
  });

  it('after a commit, the event is found in the ledger and is not sealed twice', async () => {
    const event = anEvent();
    proxy.loseAnswerTo(event.id);
    expect(await ledger.seal('t', event)).toMatchObject({ position: 2 });
    expect(await sealedEvents(ledger)).toHaveLength(2);
  });

  it('and the database stays unavailable after a commit, a later event records that the caller got a failure', async () => {
    const event = anEvent();
    proxy.loseAnswerTo(event.id, 'stay-down');
    await expect(ledger.seal('t', event)).rejects.toMatchObject(failed);
    proxy.isDown = false;
    await ledger.drain();
    await until(async () => (await sealedEvents(ledger)).length === 3);
    expect(await sealedEvents(ledger)).toMatchObject([
      {},
      { id: event.id },
      { type: 'evidence.dead_lettered', data: { event_id: event.id } },
    ]);
  });

  it('because the connection is down, events are stored and sealed as dead-lettered later', async () => {
    proxy.isDown = true;
    const events = Array.from({ length: 5 }, () => anEvent());
    const results = await Promise.allSettled(events.map((event) => ledger.seal('t', event)));
    expect(results.map(({ status }) => status)).toEqual(events.map(() => 'rejected'));
    proxy.isDown = false;
    await ledger.drain();
    const sealed = (await sealedEvents(ledger)).slice(1);
    expect(sealed.map(({ id }) => id)).toEqual(events.map(({ id }) => id));
    for (const { data } of sealed) expect(data['evidence.dead_lettered']).toBe(true);
  });
});

describe('with serializable transactions', () => {
  it('conflicting writers lose no event, and failed events are sealed later as dead-lettered', async () => {
    database = await freshDatabase();
    const first = await openLedger({ databaseUrl: database.url, key });
    const name = new URL(database.url).pathname.slice(1);
    await first.store.pool.query(
      `ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`,
    );
    await first.close();
    const ledgers = await Promise.all(
      Array.from({ length: 3 }, () => openLedger({ databaseUrl: database.url, key })),
    );
    const told: string[] = [];
    const refused: string[] = [];
    await Promise.all(
      ledgers.flatMap((ledger, writer) =>
        Array.from({ length: 40 }, async (_, n) => {
          const event = anEvent({ chain_id: `agent:${(writer + n) % 3}` });
          await new Promise((resolve) => setTimeout(resolve, Math.floor(n / 4) * 5));
          await ledger.seal('t', event).then(
            () => told.push(event.id),
            () => refused.push(event.id),
          );
        }),
      ),
    );
    const [ledger] = ledgers;
    if (ledger === undefined) throw new Error('no ledger');
    for (const one of ledgers) await one.drain();
    await until(async () => {
      await ledger.drain();
      return (await ledger.store.pool.query('SELECT 1 FROM event_outbox')).rows.length === 0;
    });
    const decisions = (await sealedEvents(ledger)).filter(({ type }) => type === 'decision');
    expect(decisions.map(({ id }) => id).toSorted()).toEqual([...told, ...refused].toSorted());
    await expectSound(ledger);
    for (const one of ledgers) await one.close();
    await database.drop();
  });
});

describe('if Postgres is killed during sealing', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it('every confirmed event remains sealed, and each failed event is sealed once later', async () => {
    database = await freshDatabase(server.url);
    const ledger = await openLedger({ databaseUrl: database.url, key });
    const told: string[] = [];
    const refused: string[] = [];
    let isOver = false;
    const writers = Array.from({ length: 6 }, async (_, writer) => {
      while (!isOver) {
        const event = anEvent({ chain_id: `agent:${writer % 2}` });
        await ledger.seal('t', event).then(
          () => told.push(event.id),
          () => refused.push(event.id),
        );
      }
    });
    await until(() => told.length >= 100);
    await server.kill();
    await until(() => refused.length >= 6);
    await server.restart();
    const before = told.length;
    await until(() => told.length >= before + 100);
    isOver = true;
    await Promise.all(writers);
    await ledger.drain();
    // For each refused event, the ledger records the refusal in the event itself or in a separate event.
    const known = async () =>
      new Set(
        (await sealedEvents(ledger)).flatMap(({ id, type, data }) => {
          if (data['evidence.dead_lettered'] === true) return [id];
          return type === 'evidence.dead_lettered' ? [String(data.event_id)] : [];
        }),
      );
    await until(async () => new Set(refused).isSubsetOf(await known()));
    expect(new Set(told).isDisjointFrom(await known())).toBe(true);
    await expectSound(ledger);
    const decisions = (await sealedEvents(ledger)).filter(({ type }) => type === 'decision');
    expect(decisions.map(({ id }) => id).toSorted()).toEqual([...told, ...refused].toSorted());
    await ledger.close();
  });
});

describe('a database role without ownership', () => {
  it('can seal, read and verify, but cannot change sealed rows', async () => {
    database = await freshDatabase();
    const owner = await openLedger({ databaseUrl: database.url, key });
    const role = `service_${database.url.slice(-8)}`;
    await owner.store.pool.query(`
      CREATE ROLE ${role} LOGIN;
      GRANT USAGE ON SCHEMA public TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role};
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role};
      REVOKE INSERT, UPDATE, DELETE ON _prisma_migrations FROM ${role};
      REVOKE UPDATE, DELETE ON evidence_row, evidence_batch, evidence_checkpoint FROM ${role};
      REVOKE DELETE ON evidence_head, evidence_chain FROM ${role}`);
    const url = new URL(database.url);
    url.username = role;
    const service = await openLedger({ databaseUrl: url.href, key });
    const event = anEvent();
    await transaction(service.store.db, (tx) => service.record(tx, 't', event));
    await service.sealed('t', event.id);
    await service.seal('t', anEvent());
    await expectSound(service);
    for (const sql of [
      'UPDATE evidence_row SET decision = NULL',
      'DELETE FROM evidence_row',
      'TRUNCATE evidence_row',
      'ALTER TABLE evidence_row DISABLE TRIGGER ALL',
      'DROP TRIGGER evidence_row_append_only ON evidence_row',
      'SET session_replication_role = replica',
    ]) {
      await expect(service.store.pool.query(sql), sql).rejects.toThrow(
        /permission denied|must be owner/,
      );
    }
    await service.close();
    await owner.store.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    await owner.close();
    await database.drop();
  });
});

describe('a ledger that is being closed', () => {
  it('completes accepted events, but refuses new events', async () => {
    database = await freshDatabase();
    const ledger = await openLedger({ databaseUrl: database.url, key });
    const sealing = Promise.all(Array.from({ length: 30 }, () => ledger.seal('t', anEvent())));
    const closing = ledger.close();
    await expect(ledger.seal('t', anEvent())).rejects.toMatchObject(failed);
    expect(await sealing).toHaveLength(30);
    await closing;
    await database.drop();
  });
});
