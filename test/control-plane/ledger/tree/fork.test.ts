import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkpointNow } from '../../../../control-plane/ledger/tree/checkpoint.ts';
import { generateSigningKey, type SigningKey } from '../../../../shared/crypto/signing-key.ts';
import { signCheckpoint } from '../../../../shared/ledger/checkpoint.ts';
import { signHead } from '../../../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../../../shared/ledger/merkle.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { anEvent, tamper } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

// These tests disable triggers and change the database between two checkpoints, as the owner of the database
// could.

let services: TestServices;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let tenantId: string;
let tenants = 0;

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
});

afterAll(async () => {
  await services.close();
  await database.drop();
});

beforeEach(async () => {
  tenantId = `tenant-${++tenants}`;
  await services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
  await grow(300);
  await checkpointNow(services, tenantId);
  await grow(20);
});

async function grow(events: number): Promise<void> {
  const batch = Array.from({ length: events }, () => anEvent());
  await services.ledger.sealAll(tenantId, batch);
}

function sql(...statements: readonly string[]): Promise<void> {
  return tamper(database.url, ...statements);
}

/** Replaces the hashes of all rows from a position on, and adapts the head of the ledger. */
async function rewriteFrom(position: number, key: SigningKey): Promise<void> {
  await sql(`UPDATE evidence_row SET event_hash =
      'sha256:' || encode(sha256(convert_to(event_hash, 'UTF8')), 'hex')
    WHERE tenant_id = '${tenantId}' AND position >= ${position}`);
  await signEnd(320, key);
}

/** Sets the head of a ledger to a position, signed with the given key. */
async function signEnd(position: number, key: SigningKey): Promise<void> {
  const rows = await services.db.evidenceRow.findMany({
    where: { tenantId, position: { lte: position } },
    orderBy: { position: 'asc' },
  });
  const tree = new Frontier();
  for (const { eventHash } of rows) tree.append(leafOf(eventHash));
  const root = `sha256:${tree.root().toString('hex')}`;
  const jws = signHead({ tenant: tenantId, position, tree_root: root }, key);
  await sql(
    `DELETE FROM evidence_node WHERE tenant_id = '${tenantId}'`,
    `UPDATE evidence_head SET position = ${position}, tree_root = '${root}',
       frontier = '{${tree.roots.map((one) => one.toString('hex')).join(',')}}'
      WHERE tenant_id = '${tenantId}'`,
    `DELETE FROM evidence_batch WHERE tenant_id = '${tenantId}' AND position >= ${position}`,
    `INSERT INTO evidence_batch (tenant_id, position, tree_root, kid, jws, latest_at)
      VALUES ('${tenantId}', ${position}, '${root}', '${key.kid}', '${jws}', now())`,
  );
}

function ownKey(): Promise<SigningKey> {
  return services.signingKeys.active(tenantId, 'checkpoint');
}

/**
 * Expects that no checkpoint is signed, and that the incident is recorded once for any number of requests.
 */
async function expectFork(problem: RegExp): Promise<void> {
  const before = await services.db.evidenceCheckpoint.count({ where: { tenantId } });
  for (let n = 0; n < 2; n++) {
    await expect(checkpointNow(services, tenantId)).rejects.toMatchObject({
      code: 'evidence.fork',
    });
  }
  expect(await services.db.evidenceCheckpoint.count({ where: { tenantId } })).toBe(before);
  const waiting = await services.db.eventOutbox.findMany({ where: { tenantId } });
  const sealed = await services.db.evidenceRow.findMany({
    where: { tenantId, type: 'evidence.fork' },
  });
  const texts = [...waiting.map(({ event }) => event), ...sealed.map((row) => row.canonical)];
  const incidents = texts.map((text) => JSON.parse(text) as { data: { problem: string } });
  expect(incidents.map(({ data }) => data.problem)).toContainEqual(expect.stringMatching(problem));
  expect(incidents.filter(({ data }) => problem.test(data.problem))).toHaveLength(1);
}

describe('a checkpoint is not signed', () => {
  it('if the history was rewritten with the tenant’s own key', async () => {
    await rewriteFrom(100, await ownKey());
    await expectFork(/does not extend/);
  });

  it('if the history was rewritten with an attacker’s key that was inserted for the tenant', async () => {
    const forged = generateSigningKey();
    await rewriteFrom(310, forged);
    const { kid, publicJwk } = forged;
    await sql(`INSERT INTO signing_key (tenant_id, kid, purpose, alg, public_jwk, sealed, state, created_at)
      SELECT tenant_id, '${kid}', purpose, alg, '${JSON.stringify(publicJwk)}', sealed, 'retired', now()
        FROM signing_key WHERE tenant_id = '${tenantId}' AND purpose = 'checkpoint'`);
    await expect(checkpointNow(services, tenantId)).rejects.toMatchObject({
      code: 'integrity.forged_row',
    });
    await sql(`DELETE FROM signing_key WHERE kid = '${kid}'`);
    await expectFork(/not signed/);
  });

  it('if a row was changed and no new head was signed for the changed ledger', async () => {
    await sql(`UPDATE evidence_row SET event_hash = 'sha256:${'0'.repeat(64)}'
      WHERE tenant_id = '${tenantId}' AND position = 315`);
    await expectFork(/rows are not those/);
  });

  it('if the ledger was truncated and a head was signed for the shorter ledger', async () => {
    await sql(`DELETE FROM evidence_row WHERE tenant_id = '${tenantId}' AND position > 200`);
    await signEnd(200, await ownKey());
    await expectFork(/shorter/);
  });

  it('if a row is missing from the ledger', async () => {
    await sql(`DELETE FROM evidence_row WHERE tenant_id = '${tenantId}' AND position = 317`);
    await expectFork(/missing/);
  });

  it('if the newest event was replaced and the ledger has the same length', async () => {
    await checkpointNow(services, tenantId);
    await rewriteFrom(320, await ownKey());
    await expectFork(/another root/);
  });

  it('if the stored root of a tile was changed', async () => {
    await sql(
      `UPDATE evidence_node SET hash = '${'0'.repeat(64)}' WHERE tenant_id = '${tenantId}'`,
    );
    await expectFork(/rows are not those/);
  });

  it('if the previous checkpoint was replaced by a checkpoint that an attacker’s key signed', async () => {
    const key = generateSigningKey();
    await rewriteFrom(100, await ownKey());
    const root = Buffer.alloc(32, 7);
    const note = signCheckpoint({ origin: `sallyport/t/${tenantId}`, size: 300, root }, key);
    await sql(`UPDATE evidence_checkpoint SET note = '${note}' WHERE tenant_id = '${tenantId}'`);
    await expectFork(/stored checkpoint is not signed/);
  });

  it('if the previous checkpoint was replaced by a checkpoint that another tenant’s key signed', async () => {
    const other = await services.signingKeys.active('another', 'checkpoint');
    const root = Buffer.alloc(32, 7);
    const note = signCheckpoint({ origin: `sallyport/t/${tenantId}`, size: 300, root }, other);
    await sql(`UPDATE evidence_checkpoint SET note = '${note}' WHERE tenant_id = '${tenantId}'`);
    await expectFork(/stored checkpoint is not signed/);
  });
});

describe('the incident event of a fork', () => {
  it('names the checkpoint and the problem, on the chain `ledger:incidents`', async () => {
    await sql(`UPDATE evidence_row SET event_hash = 'sha256:${'0'.repeat(64)}'
      WHERE tenant_id = '${tenantId}' AND position = 315`);
    await expectFork(/rows are not those/);
    const row = await services.db.evidenceRow.findFirstOrThrow({
      where: { tenantId, type: 'evidence.fork' },
    });
    expect(JSON.parse(row.canonical)).toMatchObject({
      chain_id: 'ledger:incidents',
      reason_code: 'evidence.fork',
      data: { checkpoint_size: 300, problem: 'the rows are not those that were signed' },
    });
  });
});
