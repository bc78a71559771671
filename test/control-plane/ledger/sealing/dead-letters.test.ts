import { randomBytes } from 'node:crypto';
import { chownSync, statSync } from 'node:fs';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import {
  listDeadLetters,
  retryDeadLetters,
} from '../../../../shared/contract/evidence/evidence-verification.ts';
import { until } from '../../../support/base/until.ts';
import { databaseFaults } from '../../../support/control-plane/database-faults.ts';
import { type Gateway, startGateway } from '../../../support/control-plane/gateway.ts';
import { eventsOf } from '../../../support/control-plane/services.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';
import { type SmallDisk, smallDisk } from '../../../support/programs/small-disk.ts';

const tenantId = 'default';
const failed = { code: 'evidence.seal_failed' };
let gateway: Gateway;

const waiting = () => gateway.owner.call(listDeadLetters);
const retry = () => gateway.owner.call(retryDeadLetters, { body: {} });
const late = async () =>
  (await eventsOf(gateway.services, tenantId)).filter(
    ({ data }) => data['evidence.dead_lettered'] === true,
  );

describe('while the ledger is not writable', () => {
  beforeEach(async () => {
    gateway = await startGateway();
  });
  afterEach(() => gateway.close());

  it('an unsealed event is listed with its error, and is sealed at once when a retry is requested', async () => {
    expect(await waiting()).toEqual({
      count: 0,
      oldest: null,
      last_error: null,
      dead_letters: [],
    });
    const faults = databaseFaults(gateway.services);
    await faults.unwritable('evidence_row');
    const event = anEvent();
    await expect(gateway.services.ledger.seal(tenantId, event)).rejects.toMatchObject(failed);
    const { id: event_id, type, chain_id } = event;
    const last_error = expect.stringContaining('No space left');
    expect(await waiting()).toMatchObject({
      count: 1,
      last_error,
      dead_letters: [{ event_id, type, chain_id, last_error }],
    });
    expect(await retry()).toMatchObject({ sealed: 0, count: 1 });
    await faults.mend();
    await retry();
    expect(await waiting()).toMatchObject({ count: 0, oldest: null, dead_letters: [] });
    expect(await late()).toMatchObject([{ id: event.id }]);
  });
});

describe('on a full disk', () => {
  let disk: SmallDisk;
  let database: { readonly url: string; drop(): Promise<void> };
  const space = `small_${randomBytes(4).toString('hex')}`;
  const admin = async (...statements: readonly string[]) => {
    const client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
      return (await client.query<{ data_directory: string }>('SHOW data_directory')).rows[0];
    } finally {
      await client.end();
    }
  };

  beforeEach(async () => {
    disk = smallDisk({ megabytes: 48, inodes: 10_000 });
    const { uid, gid } = statSync((await admin())?.data_directory ?? '');
    chownSync(disk.folder, uid, gid);
    await admin(`CREATE TABLESPACE ${space} LOCATION '${disk.folder}'`);
    database = await freshDatabase();
    const name = new URL(database.url).pathname.slice(1);
    await admin(`ALTER DATABASE ${name} SET TABLESPACE ${space}`);
    gateway = await startGateway({ databaseUrl: database.url });
  });
  afterEach(async () => {
    disk.free();
    await gateway.close();
    await database.drop();
    await admin(`DROP TABLESPACE ${space}`);
    disk.close();
  });

  it('unsealed events are listed; each is sealed exactly once when disk space is available again', async () => {
    const { ledger } = gateway.services;
    // Random, so that it cannot be compressed.
    const large = () => anEvent({ data: { text: randomBytes(150_000).toString('hex') } });
    await ledger.seal(tenantId, large());
    disk.fill();
    const events = Array.from({ length: 6 }, large);
    const results = await Promise.allSettled(events.map((event) => ledger.seal(tenantId, event)));
    const refused = events.filter((_, index) => results[index]?.status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    const seen = await waiting();
    expect(seen.count).toBe(refused.length);
    expect(seen.last_error).toContain('No space left on device');
    expect(seen.dead_letters.map(({ event_id: id }) => id).toSorted()).toEqual(
      refused.map(({ id }) => id).toSorted(),
    );
    disk.free();
    await until(async () => {
      await retry();
      return (await waiting()).count === 0;
    });
    expect((await late()).map(({ id }) => id).toSorted()).toEqual(
      refused.map(({ id }) => id).toSorted(),
    );
    const ids = (await eventsOf(gateway.services, tenantId)).map(({ id }) => id);
    expect(ids.filter((id) => events.some((event) => event.id === id)).toSorted()).toEqual(
      events.map(({ id }) => id).toSorted(),
    );
  });
});
