import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../../control-plane/routes.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { anEvent, tamper } from '../../../support/ledger/ledger.ts';
import { writeLongLedger } from '../../../support/ledger/long-ledger.ts';
import { goModule } from '../../../support/programs/go.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

// The ledger is verified by an independent program: Go's tlog and note packages, over HTTP, from
// tiles and entries.

let services: TestServices;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let api: TestApi;
let program: string;

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
  api = await startApi(allRoutes(services), services);
  program = await goModule(join(import.meta.dirname, '../../../support/go/tlog'));
}, 120_000);

afterAll(async () => {
  await api.close();
  await services.close();
  await database.drop();
});

interface Wanted {
  readonly tenantId: string;
  readonly positions?: readonly number[];
  readonly sizes?: readonly number[];
  /** Default: the checkpoint that the server returns. */
  readonly checkpoint?: string;
}

interface Outcome {
  readonly report: Readonly<Record<string, number>> | undefined;
  readonly complaint: string;
}

async function checkedByGo({ tenantId, ...wanted }: Wanted): Promise<Outcome> {
  const key = await api.key({ tenantId });
  const { body } = await api.send('GET', '/api/v1/evidence/checkpoint?fresh=true&format=json', {
    key,
  });
  const settings = {
    base: `${api.origin}/api/v1/evidence`,
    key,
    vkey: String(body?.vkey),
    positions: [],
    sizes: [],
    ...wanted,
  };
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const child = execFile(program, { timeout: 60_000 }, (_error, stdout, stderr) => {
    const report = stdout === '' ? undefined : (JSON.parse(stdout) as Record<string, number>);
    resolve({ report, complaint: stderr });
  });
  child.stdin?.end(JSON.stringify(settings));
  return promise;
}

async function sealed(tenantId: string, events: number): Promise<void> {
  await services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
  await services.ledger.sealAll(
    tenantId,
    Array.from({ length: events }, () => anEvent()),
  );
}

describe('the Go packages tlog and note', () => {
  it('verify that a sealed ledger’s checkpoint includes the events and is consistent with earlier sizes', async () => {
    await sealed('real', 300);
    const positions = Array.from({ length: 60 }, (_, at) => 5 * at + 1);
    const sizes = [1, 2, 3, 7, 8, 127, 128, 255, 256, 257, 299, 300];
    const { report, complaint } = await checkedByGo({ tenantId: 'real', positions, sizes });
    expect(complaint).toBe('');
    expect(report).toMatchObject({ size: 300, entries: 300, inclusion: 60, consistency: 12 });
    expect(report?.tiles).toBeGreaterThan(2);
  }, 60_000);

  it.each([1, 255, 256, 257, 511, 513])(
    'verify the checkpoint, entries and proofs of a ledger of %i events',
    async (size) => {
      const tenantId = `of-${size}`;
      await services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
      await writeLongLedger(services, database.url, { tenantId, size });
      const positions = [1, Math.ceil(size / 2), size];
      const { report, complaint } = await checkedByGo({ tenantId, positions, sizes: [1, size] });
      expect(complaint).toBe('');
      expect(report).toMatchObject({ size, entries: size, inclusion: 3, consistency: 2 });
    },
  );

  it('verify the checkpoint, entries and proofs of a ledger with three levels of tiles', async () => {
    const size = 65_536 + 256 + 77;
    await services.db.tenant.create({ data: { id: 'long', name: 'long' } });
    await writeLongLedger(services, database.url, { tenantId: 'long', size });
    const { report, complaint } = await checkedByGo({
      tenantId: 'long',
      positions: [1, 256, 257, 40_000, 65_536, 65_537, 65_792, 65_793, size],
      sizes: [1, 256, 40_000, 65_535, 65_536, 65_537, 65_792, size],
    });
    expect(complaint).toBe('');
    expect(report).toMatchObject({ size, entries: size, inclusion: 9, consistency: 8 });
  }, 60_000);

  it('verify the checkpoint in an export, and the inclusion of the exported events', async () => {
    await sealed('exported', 70);
    const key = await api.key({ tenantId: 'exported' });
    const { body } = await api.send('GET', '/api/v1/evidence/export?format=json', { key });
    const { statement } = body as { statement: { checkpoint: string } };
    const { report, complaint } = await checkedByGo({
      tenantId: 'exported',
      checkpoint: statement.checkpoint,
      positions: [1, 35, 70],
    });
    expect(complaint).toBe('');
    expect(report).toMatchObject({ size: 70, entries: 70, inclusion: 3 });
  });

  it('reject the entries of a ledger whose rows were changed after a checkpoint was signed', async () => {
    await sealed('changed', 40);
    const key = await api.key({ tenantId: 'changed' });
    const { text } = await api.send('GET', '/api/v1/evidence/checkpoint', { key });
    await tamper(
      database.url,
      `UPDATE evidence_row SET event_hash = 'sha256:${'7'.repeat(64)}'
        WHERE tenant_id = 'changed' AND position = 12`,
    );
    const { report, complaint } = await checkedByGo({ tenantId: 'changed', checkpoint: text });
    expect(report).toBeUndefined();
    expect(complaint).toContain('the entries have the root');
  });

  it('reject a checkpoint of another tenant', async () => {
    await sealed('one', 4);
    await sealed('two', 4);
    const key = await api.key({ tenantId: 'one' });
    const { text } = await api.send('GET', '/api/v1/evidence/checkpoint', { key });
    const { complaint } = await checkedByGo({ tenantId: 'two', checkpoint: text });
    expect(complaint).toContain('checkpoint:');
  });
});
