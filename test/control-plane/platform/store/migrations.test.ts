import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../../../control-plane/platform/store/open.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { describeTables } from '../../../support/control-plane/catalog.ts';
import { schemaSql } from '../../../support/control-plane/schema-engine.ts';
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

const refused = /evidence is append-only|a ledger only grows/;
const hash = `sha256:${'0'.repeat(64)}`;

describe('the migration files', () => {
  it('create exactly the tables that prisma/schema.prisma describes, according to Prisma’s own engine', async () => {
    const schema = readFileSync('prisma/schema.prisma', 'utf8');
    const expected = await freshDatabase();
    const pool = new pg.Pool({ connectionString: expected.url });
    await pool.query(await schemaSql(schema, { databaseUrl: expected.url }));
    const described = await describeTables(pool);
    await pool.end();
    await expected.drop();
    expect(described.length).toBeGreaterThan(300);
    expect(await describeTables(store.pool)).toEqual(described);
  });

  it('prevent updating, deleting and truncating evidence', async () => {
    await store.pool.query(
      `INSERT INTO evidence_row (tenant_id, position, chain_id, seq, prev_hash, event_hash, canonical,
         event_id, type, source, occurred_at)
       VALUES ('t', 1, 'c', 1, $1, $1, '{}', 'ev_1', 'decision', 'control-plane', now())`,
      [hash],
    );
    await store.pool.query(
      `INSERT INTO evidence_batch VALUES ('t', 1, '${hash}', 'kid', 'jws', now(), now())`,
    );
    await store.pool.query(`INSERT INTO evidence_checkpoint VALUES ('t', 1, 'note', now())`);
    for (const table of ['evidence_row', 'evidence_batch', 'evidence_checkpoint']) {
      await expect(store.pool.query(`UPDATE ${table} SET tenant_id = 'u'`)).rejects.toThrow(
        refused,
      );
      await expect(store.pool.query(`DELETE FROM ${table}`)).rejects.toThrow(refused);
      await expect(store.pool.query(`TRUNCATE ${table}`)).rejects.toThrow(refused);
    }
  });

  it('permit the head of a ledger or of a chain to move only forward', async () => {
    await store.pool.query(`INSERT INTO evidence_head VALUES ('t', 5, '{}', '${hash}')`);
    await store.pool.query(`INSERT INTO evidence_chain VALUES ('t', 'c', 5, '${hash}')`);
    await store.pool.query('UPDATE evidence_head SET position = 6');
    await expect(store.pool.query('UPDATE evidence_head SET position = 5')).rejects.toThrow(
      refused,
    );
    await expect(store.pool.query('DELETE FROM evidence_head')).rejects.toThrow(refused);
    await store.pool.query('UPDATE evidence_chain SET seq = 6');
    await expect(store.pool.query('UPDATE evidence_chain SET seq = 6')).rejects.toThrow(refused);
    await expect(store.pool.query('TRUNCATE evidence_chain')).rejects.toThrow(refused);
  });

  it('permit one published policy for each definition, even with concurrent writers', async () => {
    const policy = (lifecycle: string, tenantId = 't') => ({
      data: {
        tenantId,
        name: 'p',
        definitionId: 'def',
        version: 1,
        lifecycle,
        definition: '{}',
        policyHash: hash,
        createdBy: 'me',
      },
    });
    await store.db.policy.create(policy('draft'));
    await store.db.policy.create(policy('draft'));
    await store.db.policy.create(policy('published'));
    await store.db.policy.create(policy('published', 'other'));
    await expect(store.db.policy.create(policy('published'))).rejects.toMatchObject({
      code: 'P2002',
    });
    await expect(store.db.policy.create(policy('live'))).rejects.toThrow(/policy_lifecycle_check/);
  });

  it('permit only one open approval for each agent and action digest, and permit the use of granted approvals only', async () => {
    const approval = (status: string, usedAt?: Date) => ({
      data: {
        tenantId: 't',
        status,
        agentId: '1',
        userId: 'u',
        tool: 'x',
        resource: 'r',
        riskTier: 'low',
        reasonCode: 'r',
        summary: 's',
        chainId: 'agent:1',
        actionDigest: hash,
        channels: [],
        expiresAt: new Date(),
        ...(usedAt === undefined ? {} : { usedAt }),
      },
    });
    await store.db.approval.create(approval('denied'));
    await store.db.approval.create(approval('approved', new Date()));
    await store.db.approval.create(approval('pending'));
    await expect(store.db.approval.create(approval('escalated'))).rejects.toMatchObject({
      code: 'P2002',
    });
    await expect(store.db.approval.create(approval('denied', new Date()))).rejects.toThrow(
      /used_at_check/,
    );
  });

  it('permit one active signing key for each tenant and purpose', async () => {
    const key = (kid: string, state: string, purpose = 'checkpoint') => ({
      data: { tenantId: 't', kid, purpose, alg: 'EdDSA', publicJwk: {}, sealed: '', state },
    });
    await store.db.signingKey.create(key('a', 'retired'));
    await store.db.signingKey.create(key('b', 'active'));
    await store.db.signingKey.create(key('c', 'active', 'passport'));
    await expect(store.db.signingKey.create(key('d', 'active'))).rejects.toMatchObject({
      code: 'P2002',
    });
  });
});
