import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  checkpointNow,
  newestCheckpoint,
} from '../../../../control-plane/ledger/tree/checkpoint.ts';
import { openCheckpoint } from '../../../../shared/ledger/checkpoint.ts';
import { emptyRoot, Frontier, leafOf } from '../../../../shared/ledger/merkle.ts';
import { openNote, parseVkey } from '../../../../shared/ledger/note.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let services: TestServices;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let tenants = 0;

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
});

afterAll(async () => {
  await services.close();
  await database.drop();
});

/** Creates a tenant with this number of events. */
async function tenantWith(events: number): Promise<string> {
  const tenantId = `tenant-${++tenants}`;
  await services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
  await grow(tenantId, events);
  return tenantId;
}

async function grow(tenantId: string, events: number): Promise<void> {
  await services.ledger.sealAll(
    tenantId,
    Array.from({ length: events }, () => anEvent()),
  );
}

async function rootOf(tenantId: string, size: number): Promise<Buffer> {
  const rows = await services.db.evidenceRow.findMany({
    where: { tenantId, position: { lte: size } },
    orderBy: { position: 'asc' },
  });
  const tree = new Frontier();
  for (const { eventHash } of rows) tree.append(leafOf(eventHash));
  return tree.root();
}

describe('checkpointNow', () => {
  it('signs a Merkle root that an independent computation over all rows confirms', async () => {
    const tenantId = await tenantWith(600);
    const checkpoint = await checkpointNow(services, tenantId);
    expect(checkpoint.size).toBe(600);
    expect(checkpoint.root).toEqual(await rootOf(tenantId, 600));
    const keys = await services.signingKeys.publicKeys(tenantId, 'checkpoint');
    const opened = openCheckpoint(checkpoint.note, keys, `sallyport/t/${tenantId}`);
    expect(opened?.head.root).toEqual(checkpoint.root);
    expect(opened?.kid).toBe(checkpoint.kid);
    expect(openNote(checkpoint.note, [parseVkey(checkpoint.vkey)])).toBeDefined();
  });

  it('returns the stored checkpoint until the ledger grows; then it signs a checkpoint of the larger tree', async () => {
    const tenantId = await tenantWith(3);
    const first = await checkpointNow(services, tenantId);
    expect(await checkpointNow(services, tenantId)).toEqual(first);
    await grow(tenantId, 700);
    const second = await checkpointNow(services, tenantId);
    expect(second.size).toBe(703);
    expect(second.root).toEqual(await rootOf(tenantId, 703));
    expect(await newestCheckpoint(services, tenantId)).toEqual(second);
  });

  it('signs a checkpoint of an empty ledger', async () => {
    const { size, root } = await checkpointNow(services, await tenantWith(0));
    expect([size, root]).toEqual([0, emptyRoot]);
  });

  it('signs only one checkpoint for concurrent requests', async () => {
    const tenantId = await tenantWith(5);
    const all = await Promise.all(
      Array.from({ length: 8 }, () => checkpointNow(services, tenantId)),
    );
    expect(new Set(all.map(({ note }) => note)).size).toBe(1);
    expect(await services.db.evidenceCheckpoint.count({ where: { tenantId } })).toBe(1);
  });

  it('signs a correct root while events are being sealed', async () => {
    const tenantId = await tenantWith(1);
    const sealing = Promise.all(
      Array.from({ length: 200 }, () => services.ledger.seal(tenantId, anEvent())),
    );
    for (let n = 0; n < 5; n++) {
      const { size, root } = await checkpointNow(services, tenantId);
      expect(root).toEqual(await rootOf(tenantId, size));
    }
    await sealing;
  });

  it('accepts a stored checkpoint that was signed with a key that is now retired', async () => {
    const tenantId = await tenantWith(2);
    const first = await checkpointNow(services, tenantId);
    await services.db.signingKey.updateMany({
      where: { tenantId, purpose: 'checkpoint' },
      data: { state: 'retired' },
    });
    services.signingKeys.rotated?.(tenantId, 'checkpoint');
    expect(await newestCheckpoint(services, tenantId)).toEqual(first);
    await grow(tenantId, 1);
    const second = await checkpointNow(services, tenantId);
    expect([second.size, second.kid === first.kid]).toEqual([3, false]);
  });
});
