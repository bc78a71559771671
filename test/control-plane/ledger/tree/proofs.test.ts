import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointNow } from '../../../../control-plane/ledger/tree/checkpoint.ts';
import { consistencyProof, inclusionProof } from '../../../../control-plane/ledger/tree/proofs.ts';
import { allRoutes } from '../../../../control-plane/routes.ts';
import {
  getConsistencyProof,
  getInclusionProof,
  listCheckpoints,
} from '../../../../shared/contract/evidence/evidence-tree.ts';
import { verifyInclusion } from '../../../../shared/ledger/merkle.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { anEvent, tamper } from '../../../support/ledger/ledger.ts';
import { writeLongLedger } from '../../../support/ledger/long-ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
let api: TestApi;
let tenants = 0;

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
  api = await startApi(allRoutes(services), services);
});

afterAll(async () => {
  await api.close();
  await services.close();
  await database.drop();
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

/** Returns the services with counters of the queries that they execute and of the rows that they read. */
function counting() {
  const taken = { rows: 0, queries: 0 };
  const pool = new Proxy(services.pool, {
    get: (target, name) => {
      if (name !== 'query') return Reflect.get(target, name, target);
      return async (...args: Parameters<typeof target.query>) => {
        const result = (await target.query(...args)) as unknown as { rows: readonly unknown[] };
        taken.queries += 1;
        taken.rows += result.rows.length;
        return result;
      };
    },
  });
  return { services: { ...services, pool }, taken };
}

describe('a proof', () => {
  it('is built from a few hundred rows if the tiles are stored, whatever the length of the ledger', async () => {
    const size = 70_000;
    await services.db.tenant.create({ data: { id: 'long', name: 'long' } });
    await writeLongLedger(services, database.url, { tenantId: 'long', size });
    await checkpointNow(services, 'long');
    for (const position of [1, 35_001, 69_999]) {
      const { services: watched, taken } = counting();
      await inclusionProof(watched, 'long', { position });
      expect(taken.rows).toBeLessThan(1_000);
      expect(taken.queries).toBeLessThan(12);
    }
    const { services: watched, taken } = counting();
    await consistencyProof(watched, 'long', { from: 34_567 });
    expect(taken.rows).toBeLessThan(1_000);
  });

  it('of an event that the newest checkpoint does not cover comes with a new checkpoint', async () => {
    const tenantId = await tenantWith(2);
    await checkpointNow(services, tenantId);
    await grow(tenantId, 3);
    const client = await api.client({ tenantId });
    const covered = await client.call(getInclusionProof, { query: { position: 2 } });
    expect(covered.size).toBe(2);
    const fresh = await client.call(getInclusionProof, { query: { position: 4 } });
    expect(fresh.size).toBe(5);
    expect(fresh.checkpoint).toContain('\n5\n');
  });

  it('for a tree size without a checkpoint contains no checkpoint; a consistency proof links this size to a checkpoint', async () => {
    const tenantId = await tenantWith(9);
    const { root } = await checkpointNow(services, tenantId);
    const client = await api.client({ tenantId });
    const proved = await client.call(getInclusionProof, { query: { position: 3, size: 7 } });
    expect(proved.checkpoint).toBeNull();
    const led = await client.call(getConsistencyProof, { query: { from: 7 } });
    expect([led.from_root, led.root]).toEqual([proved.root, `sha256:${root.toString('hex')}`]);
    const bytes = (text: string) => Buffer.from(text.slice('sha256:'.length), 'hex');
    const claim = { leaf: bytes(proved.leaf_hash), index: 2, size: 7, root: bytes(proved.root) };
    const proof = proved.proof.map((one) => Buffer.from(one, 'base64'));
    expect(verifyInclusion(claim, proof)).toBe(true);
  });

  it('is correct while the ledger grows', async () => {
    const tenantId = await tenantWith(250);
    const growing = grow(tenantId, 300);
    for (let n = 0; n < 10; n++) {
      const { size } = await checkpointNow(services, tenantId);
      const { checkpoint } = await inclusionProof(services, tenantId, { position: size, size });
      expect(checkpoint?.size).toBe(size);
    }
    await growing;
  });

  it('is refused for a row that was changed after it was signed', async () => {
    const tenantId = await tenantWith(6);
    await checkpointNow(services, tenantId);
    await tamper(
      database.url,
      `UPDATE evidence_row SET event_hash = 'sha256:${'0'.repeat(64)}'
        WHERE tenant_id = '${tenantId}' AND position = 4`,
    );
    const client = await api.client({ tenantId });
    const asked = client.call(getInclusionProof, { query: { position: 4 } });
    await expect(asked).rejects.toMatchObject({ code: 'evidence.fork' });
    // Neighbours of the row get no proof either, because their proofs contain the row's hash.
    const beside = client.call(getInclusionProof, { query: { position: 3 } });
    await expect(beside).rejects.toMatchObject({ code: 'evidence.fork' });
  });
});

describe('the checkpoint of a ledger', () => {
  it('is returned as text or JSON, as the client requests', async () => {
    const tenantId = await tenantWith(1);
    const key = await api.key({ tenantId });
    const ask = (query: string, accept: string) =>
      api.send('GET', `/api/v1/evidence/checkpoint${query}`, { key, headers: { accept } });
    for (const accept of ['*/*', 'text/plain', 'text/plain, application/json']) {
      const { headers, text } = await ask('', accept);
      expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
      expect(text).toMatch(new RegExp(`^sallyport/t/${tenantId}\n1\n`));
    }
    const asked = [await ask('', 'application/json'), await ask('?format=json', 'text/plain')];
    for (const { headers, body } of asked) {
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(Object.keys(body ?? {})).toEqual([
        'checkpoint',
        'size',
        'root',
        'kid',
        'vkey',
        'created_at',
      ]);
    }
    expect((await ask('?format=note', 'application/json')).text).toContain('\n1\n');
  });

  it('is the newest stored checkpoint unless a fresh one is requested', async () => {
    const tenantId = await tenantWith(1);
    const key = await api.key({ tenantId });
    const ask = async (query: string) =>
      (await api.send('GET', `/api/v1/evidence/checkpoint?format=json${query}`, { key })).body;
    expect(await ask('')).toMatchObject({ size: 1 });
    await grow(tenantId, 2);
    expect(await ask('')).toMatchObject({ size: 1 });
    expect(await ask('&fresh=true')).toMatchObject({ size: 3 });
    expect(await ask('')).toMatchObject({ size: 3 });
  });

  it('is listed with all earlier checkpoints, newest first, in pages', async () => {
    const tenantId = await tenantWith(0);
    for (let n = 0; n < 5; n++) {
      await grow(tenantId, 1);
      await checkpointNow(services, tenantId);
    }
    const client = await api.client({ tenantId });
    const seen: number[] = [];
    let cursor: string | null = null;
    do {
      const query = cursor === null ? { limit: 2 } : { limit: 2, cursor };
      const page = (await client.call(listCheckpoints, { query })) as {
        checkpoints: { size: number }[];
        next_cursor: string | null;
      };
      seen.push(...page.checkpoints.map(({ size }) => size));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual([5, 4, 3, 2, 1]);
  });
});
