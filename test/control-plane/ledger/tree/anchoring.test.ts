import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointDue } from '../../../../control-plane/ledger/anchoring/checkpoint-rounds.ts';
import { WitnessRound } from '../../../../control-plane/ledger/anchoring/witness-round.ts';
import {
  checkpointNow,
  newestCheckpoint,
} from '../../../../control-plane/ledger/tree/checkpoint.ts';
import { allRoutes } from '../../../../control-plane/routes.ts';
import { createStateMetrics } from '../../../../control-plane/telemetry/state-metrics.ts';
import { drainDeliveries, putWebhook } from '../../../../shared/contract/deliveries.ts';
import { generateSigningKey } from '../../../../shared/crypto/signing-key.ts';
import { cosign, openNote, parseVkey, vkeyOf } from '../../../../shared/ledger/note.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { anEvent, sealElsewhere, tamper } from '../../../support/ledger/ledger.ts';
import { type RunningWitness, startWitness } from '../../../support/ledger/witness.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';
import { startUpstream, type Upstream } from '../../../support/sidecar/upstream.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
let witness: RunningWitness;
let api: TestApi;
let liar: Upstream;
const liarKey = generateSigningKey();
const liarVkey = vkeyOf('liar.example', liarKey.publicJwk, 'cosignature');
let tenants = 0;

beforeAll(async () => {
  [witness, liar, database] = await Promise.all([startWitness(), startUpstream(), freshDatabase()]);
  const env = {
    SALLYPORT_WITNESSES: `${witness.setting}, ${liarVkey} http://127.0.0.1:${liar.port}/witness/`,
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8',
    SALLYPORT_LEDGER_ORIGIN: 'gateway.example',
    SALLYPORT_CHECKPOINT_EVENTS: '10',
    SALLYPORT_CHECKPOINT_INTERVAL_MS: '60000',
  };
  services = await testServices({ databaseUrl: database.url, env });
  api = await startApi(allRoutes(services), services);
}, 120_000);

afterAll(async () => {
  await api.close();
  await services.close();
  await Promise.all([witness.close(), liar.close(), database.drop()]);
});

async function tenantWith(events: number): Promise<string> {
  const tenantId = `tenant-${++tenants}`;
  await services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
  await grow(tenantId, events);
  return tenantId;
}

async function grow(tenantId: string, events: number): Promise<void> {
  const batch = Array.from({ length: events }, () => anEvent());
  await services.ledger.sealAll(tenantId, batch);
}

async function sizes(tenantId: string): Promise<readonly number[]> {
  const rows = await services.db.evidenceCheckpoint.findMany({ where: { tenantId } });
  return rows.map(({ size }) => Number(size));
}

describe('a checkpoint is signed', () => {
  it('after a number of new events, or after a period of time with at least one new event', async () => {
    const tenantId = await tenantWith(1);
    await checkpointDue(services);
    expect(await sizes(tenantId)).toEqual([1]);
    await grow(tenantId, 9);
    await checkpointDue(services);
    expect(await sizes(tenantId)).toEqual([1]);
    await grow(tenantId, 1);
    await checkpointDue(services);
    expect(await sizes(tenantId)).toEqual([1, 11]);
    await grow(tenantId, 1);
    services.clock.advance(60_000);
    await checkpointDue(services);
    expect(await sizes(tenantId)).toEqual([1, 11, 12]);
    services.clock.advance(600_000);
    await checkpointDue(services);
    expect(await sizes(tenantId)).toEqual([1, 11, 12]);
  });

  it('for every intact ledger, even if another tenant’s ledger was rewritten', async () => {
    const [bad, good] = [await tenantWith(2), await tenantWith(2)];
    await tamper(database.url, `DELETE FROM evidence_row WHERE tenant_id = '${bad}'`);
    await checkpointDue(services);
    expect([await sizes(bad), await sizes(good)]).toEqual([[], [2]]);
  });
});

describe('the age of the oldest event without a checkpoint', () => {
  it('is measured only for ledgers that grew after their last checkpoint', async () => {
    const metric = 'sallyport_checkpoint_oldest_unsigned_age_seconds';
    const measured = async () => {
      const registry = new Registry();
      createStateMetrics(registry, services, 'test');
      const text = await registry.getSingleMetricAsString(metric);
      return Number(/^\S+ (\S+)$/m.exec(text.replaceAll(/^#.*\n/gm, ''))?.[1]);
    };
    await checkpointDue(services);
    const before = await measured();
    const day = 86_400;
    const createdAt = new Date(Date.now() - day * 1000);
    const quiet = await tenantWith(1);
    await services.db.evidenceCheckpoint.create({
      data: { tenantId: quiet, size: 1, note: '', createdAt },
    });
    expect(await measured()).toBeLessThan(day);
    expect(before).toBeLessThan(day);
    await grow(quiet, 1);
    expect(await measured()).toBeGreaterThanOrEqual(day);
  });
});

describe('a webhook with `checkpoints: true`', () => {
  it('receives the whole text of each checkpoint once; other webhooks receive no checkpoints', async () => {
    const receiver = await startUpstream();
    try {
      const tenantId = await tenantWith(3);
      const client = await api.client({ tenantId });
      const url = `http://127.0.0.1:${receiver.port}/hook`;
      expect(await client.call(putWebhook, { body: { url } })).toMatchObject({
        checkpoints: false,
      });
      await checkpointNow(services, tenantId);
      await client.call(putWebhook, { body: { url, checkpoints: true } });
      // Settings that a request omits remain unchanged.
      expect(await client.call(putWebhook, { body: { url } })).toMatchObject({ checkpoints: true });
      const made = await checkpointNow(services, tenantId);
      await checkpointNow(services, tenantId);
      await client.call(drainDeliveries, { body: {} });
      const [message, ...more] = receiver.seen.map(({ body }) => JSON.parse(body));
      expect(more).toEqual([]);
      expect(message).toMatchObject({
        type: 'evidence.checkpoint',
        data: { checkpoint: made.note, size: made.size, kid: made.kid, vkey: made.vkey },
      });
    } finally {
      await receiver.close();
    }
  });

  it('does not prevent the signing of checkpoints if the webhook’s settings cannot be read', async () => {
    const tenantId = await tenantWith(1);
    await services.db.install.create({
      data: { id: 'in_1', tenantId, channel: 'webhook', sealed: '{}', createdBy: 'test' },
    });
    expect((await checkpointNow(services, tenantId)).size).toBe(1);
  });

  it('is notified of a fork, like every webhook', async () => {
    const tenantId = await tenantWith(2);
    const client = await api.client({ tenantId });
    await client.call(putWebhook, { body: { url: 'https://hooks.example' } });
    await tamper(
      database.url,
      `DELETE FROM evidence_row WHERE tenant_id = '${tenantId}' AND position = 1`,
    );
    await expect(checkpointNow(services, tenantId)).rejects.toMatchObject({
      code: 'evidence.fork',
    });
    const queued = await services.db.delivery.findMany({ where: { tenantId } });
    expect(queued.map(({ kind }) => kind)).toEqual(['evidence.fork']);
  });
});

describe('a witness', () => {
  /** Creates a tenant whose ledger is registered at the witness. */
  async function known(events: number): Promise<string> {
    const tenantId = await tenantWith(events);
    const { vkey } = await checkpointNow(services, tenantId);
    await witness.know(vkey);
    return tenantId;
  }

  const round = () => new WitnessRound(services).run();
  const [name = ''] = ['witness.example/w1'];

  async function signatures(tenantId: string): Promise<readonly string[]> {
    const rows = await services.db.evidenceCosignature.findMany({
      where: { tenantId },
      orderBy: { size: 'asc' },
    });
    return rows.map(({ size, witness: by }) => `${by} ${size}`);
  }

  async function incidents(tenantId: string): Promise<readonly string[]> {
    const rows = await services.db.evidenceRow.findMany({
      where: { tenantId, type: 'evidence.fork' },
    });
    return rows.map(({ canonical }) => JSON.parse(canonical).data.problem);
  }

  it('cosigns successive checkpoints, and the API returns each checkpoint with the witness’s signature', async () => {
    const tenantId = await known(3);
    await round();
    await grow(tenantId, 300);
    await checkpointNow(services, tenantId);
    await round();
    expect(await signatures(tenantId)).toEqual([`${name} 3`, `${name} 303`]);
    const key = await api.key({ tenantId });
    const { text } = await api.send('GET', '/api/v1/evidence/checkpoint', { key });
    const { vkey } = await checkpointNow(services, tenantId);
    const [witnessVkey = ''] = witness.setting.split(' ');
    const opened = openNote(text, [parseVkey(vkey), parseVkey(witnessVkey)]);
    expect(opened?.verified.map(({ verifier }) => verifier.name)).toEqual([
      `gateway.example/t/${tenantId}`,
      name,
    ]);
  });

  it('receives a consistency proof from the tree size that it cosigned last, even if the database lost this cosignature', async () => {
    const tenantId = await known(3);
    await round();
    await tamper(database.url, `DELETE FROM evidence_cosignature WHERE tenant_id = '${tenantId}'`);
    await grow(tenantId, 5);
    await checkpointNow(services, tenantId);
    await round();
    expect(await signatures(tenantId)).toEqual([`${name} 8`]);
    expect(await incidents(tenantId)).toEqual([]);
  });

  it('reveals a rollback of the whole database, including the checkpoints', async () => {
    const tenantId = await known(3);
    const tables = [
      'evidence_row',
      'evidence_batch',
      'evidence_checkpoint',
      'evidence_cosignature',
    ];
    const copy = tables.map(
      (table) => `CREATE TABLE copy_${table} AS SELECT * FROM ${table}
      WHERE tenant_id = '${tenantId}'`,
    );
    const heads = ['evidence_head', 'evidence_chain'];
    await tamper(
      database.url,
      ...copy,
      ...heads.map(
        (table) => `CREATE TABLE copy_${table} AS
      SELECT * FROM ${table} WHERE tenant_id = '${tenantId}'`,
      ),
    );
    // Another process seals, because this process remembers the head of the ledger and would seal
    // nothing.
    const twenty = Array.from({ length: 20 }, () => anEvent());
    await sealElsewhere(services, tenantId, twenty);
    await checkpointNow(services, tenantId);
    await round();
    await tamper(
      database.url,
      ...[...tables, ...heads].flatMap((table) => [
        `DELETE FROM ${table} WHERE tenant_id = '${tenantId}'`,
        `INSERT INTO ${table} SELECT * FROM copy_${table}`,
        `DROP TABLE copy_${table}`,
      ]),
    );
    expect((await newestCheckpoint(services, tenantId))?.size).toBe(3);
    await round();
    await round();
    expect(await incidents(tenantId)).toEqual([
      `witness ${name} has signed another ledger: a larger one, of 23 events`,
    ]);
    // The witness refuses the ledger even after it has grown beyond the size that the witness
    // knows.
    await grow(tenantId, 40);
    await checkpointNow(services, tenantId);
    await round();
    expect(await incidents(tenantId)).toContain(
      `witness ${name} has signed another ledger: not how this one begins`,
    );
  });

  it('is asked again after a delay if it does not know the ledger', async () => {
    const tenantId = await tenantWith(2);
    const { vkey } = await checkpointNow(services, tenantId);
    const rounds = new WitnessRound(services);
    await rounds.run();
    expect(await signatures(tenantId)).toEqual([]);
    await witness.know(vkey);
    // The witness is not asked again at once, because a failing witness is asked at increasing
    // intervals.
    await rounds.run();
    expect(await signatures(tenantId)).toEqual([]);
    services.clock.advance(15_000);
    await rounds.run();
    expect(await signatures(tenantId)).toEqual([`${name} 2`]);
  });

  it('that returns an invalid signature is not stored as a cosigner', async () => {
    const tenantId = await known(2);
    const text = 'another text\n';
    const line = cosign(text, { name: 'liar.example', key: liarKey, timeSeconds: 1 });
    liar.behave((_req, res) => res.end(`${line}\n`));
    const before = liar.seen.length;
    await round();
    expect(liar.seen.length).toBeGreaterThan(before);
    expect(await signatures(tenantId)).toEqual([`${name} 2`]);
  });
});
