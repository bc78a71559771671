import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRowGuard } from '../../../../control-plane/platform/integrity/row-guard.ts';
import { createSigningKeys } from '../../../../control-plane/platform/signing-keys/signing-keys.ts';
import { migrate, readMigrations } from '../../../../control-plane/platform/store/migrate.ts';
import { StoreError } from '../../../../control-plane/platform/store/store-error.ts';
import { holdKeys } from '../../../../control-plane/platform/vault/hold-keys.ts';
import { keyMac } from '../../../../control-plane/platform/vault/key-states.ts';
import {
  type OpenKeys,
  rootPlace,
  signedRootPlace,
} from '../../../../control-plane/platform/vault/open-keys.ts';
import { sealedColumns } from '../../../../control-plane/platform/vault/sealed-columns.ts';
import { createVault } from '../../../../control-plane/platform/vault/vault.ts';
import { vaultStatus } from '../../../../control-plane/vault/vault-status.ts';
import { systemClock } from '../../../../shared/base/clock.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { SettingsError } from '../../../../shared/base/settings.ts';
import {
  masterKey,
  masterKeyId,
  startVaultWorld,
  tablesUnder,
  under,
  type VaultWorld,
} from '../../../support/control-plane/vault-world.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

const [first, second, third] = [masterKey(), masterKey(), masterKey()];

let world: VaultWorld;
beforeEach(async () => {
  world = await startVaultWorld();
});
afterEach(() => world.close());

const query = (sql: string, values: unknown[] = []) => world.store.pool.query(sql, values);

/** Stores a secret in every sealed column; returns a function that expects to open all of them. */
async function seedEverything(keys: OpenKeys): Promise<() => Promise<void>> {
  const vault = createVault(keys);
  const { db, pool } = world.store;
  const guard = createRowGuard({ pool, clock: systemClock, log: silentLog, vault });
  const seal = (purpose: string, id: string) =>
    vault.seal(`secret of ${purpose}`, { tenantId: 't', purpose, id, version: 1 });
  await query("INSERT INTO tenant (id, name) VALUES ('t', 't')");
  await createSigningKeys({ db, vault, clock: systemClock, guard }).active('t', 'export');
  const common = { tenantId: 't', createdBy: 'p' };
  await db.credential.create({
    data: {
      ...common,
      id: 'cred_1',
      name: 'n',
      inject: {},
      tools: [],
      hosts: [],
      sealed: seal('credential', 'cred_1'),
    },
  });
  await db.install.create({
    data: { ...common, id: 'in_1', channel: 'webhook', sealed: seal('install', 'webhook') },
  });
  const sink = { id: 'sink_1', tenantId: 't', type: 'webhook', endpoint: 'e' };
  await db.sink.create({ data: { ...sink, sealed: seal('sink', 'sink_1') } });
  const delivery = { id: 'dl_1', tenantId: 't', channel: 'webhook', kind: 'k' };
  await db.delivery.create({
    data: { ...delivery, nextAttemptAt: new Date(), sealed: seal('delivery', 'dl_1') },
  });
  await db.approval.create({
    data: {
      id: 7,
      tenantId: 't',
      agentId: '1',
      userId: 'u',
      tool: 't',
      resource: 'r',
      riskTier: 'low',
      reasonCode: 'r',
      summary: 's',
      chainId: 'c',
      actionDigest: 'd',
      channels: [],
      expiresAt: new Date(),
      proposedArgs: seal('approval_args', '7:proposed'),
      effectiveArgs: seal('approval_args', '7:effective'),
    },
  });
  const rowKey = { keyId: 'key_1', agentId: '', operation: 'preflight', key: 'a "quoted" key' };
  await db.idempotency.create({
    data: {
      ...rowKey,
      tenantId: 't',
      fingerprint: 'f',
      owner: 'o',
      expiresAt: new Date(),
      body: seal('idempotency', JSON.stringify(Object.values(rowKey))),
    },
  });
  // More rows than one batch.
  const salts = Array.from({ length: 600 }, (_, index) => `ev_${index}`);
  await query(
    `INSERT INTO evidence_salt (tenant_id, event_id, sealed) SELECT 't', * FROM unnest($1::text[], $2::text[])`,
    [salts, salts.map((id) => seal('evidence_salt', id))],
  );
  await query(`UPDATE evidence_salt SET arguments = $1 WHERE event_id = 'ev_5'`, [
    seal('evidence_arguments', 'ev_5'),
  ]);
  await query(`UPDATE evidence_salt SET sealed = '', erased_at = now() WHERE event_id = 'ev_6'`);
  return () => everythingOpens(vault);
}

async function everythingOpens(vault: ReturnType<typeof createVault>): Promise<void> {
  for (const { table, column, place, idOf: placeId } of sealedColumns) {
    const { rows } = await query(
      `SELECT ${column} AS sealed, ARRAY[${place.map((name) => `${name}::text`).join()}]::text[] AS place
         FROM ${table} WHERE ${column} <> ''`,
    );
    const places = {
      'approval.proposed_args': 'approval_args',
      'approval.effective_args': 'approval_args',
      'evidence_salt.arguments': 'evidence_arguments',
    } as Readonly<Record<string, string>>;
    expect(rows.length, `${table} is seeded`).toBeGreaterThan(0);
    for (const { sealed, place: values } of rows) {
      const purpose = places[`${table}.${column}`] ?? table;
      const where = { tenantId: 't', purpose, id: placeId(values), version: 1 };
      const opened = vault.open(sealed, table === 'vault_root' ? signedRootPlace : where);
      if (!['vault_root', 'signing_key'].includes(table)) {
        expect(opened.toString()).toBe(`secret of ${purpose}`);
      }
    }
  }
}

describe('a rotation of the master key', () => {
  it('encrypts every sealed column of every table under the new key, and loses no data', async () => {
    const before = await world.open(under(first));
    await seedEverything(before);
    const tables = await tablesUnder(world, masterKeyId(first));
    expect(new Set(tables)).toEqual(new Set(sealedColumns.map(({ table }) => table)));
    const rotation = await world.rotate(under(second, first));
    expect(rotation).toMatchObject({
      active: masterKeyId(second),
      retired: [masterKeyId(first)],
      unreadable: [],
    });
    expect(rotation.rewrapped).toBeGreaterThanOrEqual(609);
    expect(await tablesUnder(world, masterKeyId(first))).toEqual([]);
    const after = await world.open(under(second));
    await everythingOpens(createVault(after));
    expect(createVault(after).mac('api_key', 'x')).toBe(createVault(before).mac('api_key', 'x'));
    await expect(world.open(under(first))).rejects.toThrow(masterKeyId(second));
  });

  it('is recorded once for every tenant, and a repetition with the same key changes nothing', async () => {
    await seedEverything(await world.open(under(first)));
    await query("INSERT INTO tenant (id, name) VALUES ('other', 'o')");
    await world.rotate(under(second, first));
    expect(await world.rotate(under(second, first))).toMatchObject({ retired: [], rewrapped: 0 });
    const { rows } = await query(
      `SELECT tenant_id AS tenant, type, data ->> 'to' AS key FROM (
         SELECT tenant_id, canonical::jsonb AS event FROM evidence_row
         UNION ALL SELECT tenant_id, event::jsonb FROM event_outbox) AS told,
         jsonb_to_record(event) AS e (type text, data jsonb)
        WHERE type LIKE 'master_key.%' ORDER BY 1, 2`,
    );
    expect(rows).toEqual(
      ['other', 't'].flatMap((tenant) =>
        ['rotated', 'rotation_began'].map((what) => ({
          tenant,
          type: `master_key.${what}`,
          key: masterKeyId(second),
        })),
      ),
    );
  });

  it('does not block a concurrent writer; the row is encrypted under the new key after the writer’s transaction', async () => {
    await seedEverything(await world.open(under(first)));
    const writer = new pg.Client({ connectionString: world.url });
    await writer.connect();
    await writer.query('BEGIN');
    await writer.query(`UPDATE credential SET name = 'm' WHERE id = 'cred_1'`);
    const rotated = world.rotate(under(second, first));
    const others = `SELECT count(*)::int AS count FROM evidence_salt
      WHERE sealed <> '' AND strpos(sealed, $1) = 0`;
    await expect
      .poll(async () => (await query(others, [masterKeyId(second)])).rows, { timeout: 30_000 })
      .toEqual([{ count: 0 }]);
    await writer.query(`UPDATE credential SET name = 'o' WHERE id = 'cred_1'`);
    await writer.query('COMMIT');
    await writer.end();
    await rotated;
    expect(await tablesUnder(world, masterKeyId(first))).toEqual([]);
  });

  it('skips a row that was already unreadable, and names this row', async () => {
    const keys = await world.open(under(first));
    await seedEverything(keys);
    await query(`UPDATE credential SET sealed = 'broken'`);
    const rotation = await world.rotate(under(second, first));
    expect(rotation).toMatchObject({
      retired: [masterKeyId(first)],
      unreadable: ['credential cred_1'],
    });
  });

  it('does not begin while a running control plane lacks the new key', async () => {
    const { pool } = world.store;
    const old = await holdKeys(await world.open(under(first)), { pool, log: silentLog });
    const rotating = world.rotate(under(second, first), { patienceMs: 500 });
    await expect(rotating).rejects.toThrow(SettingsError);
    await expect(rotating).rejects.toThrow('SALLYPORT_MASTER_KEY_PREVIOUS');
    const { rows } = await query(`SELECT id FROM vault_key WHERE state = 'active'`);
    expect(rows).toEqual([{ id: masterKeyId(first) }]);
    await old.close();
    expect(await world.rotate(under(second, first))).toMatchObject({
      retired: [masterKeyId(first)],
    });
  });

  it('reports each control plane that it waits for only once', async () => {
    const { pool } = world.store;
    const old = await holdKeys(await world.open(under(first)), { pool, log: silentLog });
    const steps: string[] = [];
    const onProgress = (step: string) => steps.push(step);
    await expect(
      world.rotate(under(second, first), { patienceMs: 500, onProgress }),
    ).rejects.toThrow(SettingsError);
    const { rows } = await query('SELECT id FROM vault_holder');
    const ids = rows.map(({ id }) => String(id));
    await old.close();
    expect(ids).not.toEqual([]);
    expect(steps.filter((step) => step.startsWith('waiting'))).toEqual([
      expect.stringContaining(ids.join(', ')),
    ]);
  });

  it('makes running control planes switch to the new key; until then they encrypt with the old key', async () => {
    const { pool } = world.store;
    await world.open(under(first));
    const keys = await world.open(under(second, first));
    const running = await holdKeys(keys, { pool, log: silentLog });
    expect(keys.keyring.active.id).toBe(masterKeyId(first));
    await world.rotate(under(second, first));
    expect(keys.keyring.active.id).toBe(masterKeyId(second));
    expect(await vaultStatus(keys, world.store)).toMatchObject({ is_settled: true });
    await running.close();
  });

  it('that was interrupted is completed before the old key can be removed or another rotation can begin', async () => {
    const keys = await world.open(under(first));
    await seedEverything(keys);
    await world.open(under(second, first));
    const [one, other] = [keys.keyring.active.id, masterKeyId(second)];
    const vault = createVault(keys);
    await world.store.db.vaultKey.create({
      data: { id: other, provider: 'environment', state: 'announced' },
    });
    for (const [id, state, at] of [
      [one, 'retiring', 1],
      [other, 'active', 2],
    ] as const) {
      const row = { id, state, activatedAt: new Date(at) };
      await world.store.db.vaultKey.update({
        where: { id },
        data: { ...row, mac: keyMac(vault, row) },
      });
    }
    await expect(world.open(under(second))).rejects.toThrow(masterKeyId(first));
    const status = await vaultStatus(await world.open(under(second, first)), world.store);
    expect(status.is_settled).toBe(false);
    expect(await world.rotate(under(third, first)).catch((error: Error) => error)).toBeInstanceOf(
      StoreError,
    );
    expect(await world.rotate(under(second, first))).toMatchObject({
      retired: [masterKeyId(first)],
    });
  });

  it('cannot return to a key that was replaced', async () => {
    await world.open(under(first));
    await world.rotate(under(second, first));
    await expect(world.rotate(under(first, second))).rejects.toThrow('was already replaced');
  });
});

describe('the encryption keys of a database', () => {
  it('can be opened only with the database’s master key, and the root key differs from the master key', async () => {
    const keys = await world.open(under(first));
    expect(keys.root).not.toEqual(Buffer.from(first, 'base64'));
    expect((await world.open(under(first))).root).toEqual(keys.root);
    const wrong = world.open(under(second));
    await expect(wrong).rejects.toThrow(StoreError);
    await expect(wrong).rejects.not.toThrow(second);
  });

  it('are created once by control planes that start at the same time', async () => {
    const opened = await Promise.all(Array.from({ length: 6 }, () => world.open(under(first))));
    expect(new Set(opened.map(({ root }) => root.toString('hex'))).size).toBe(1);
  });

  it.each(['vault_root', 'vault_key'])(
    'are not created again if the table %s is emptied',
    async (table) => {
      await world.open(under(first));
      await query(`DELETE FROM ${table}`);
      await expect(world.open(under(first))).rejects.toThrow('backup');
    },
  );

  it('cannot be replaced by a writer in the database', async () => {
    await world.open(under(first));
    const { rows } = await query('SELECT sealed FROM vault_root');
    const mine = createVault(Buffer.from(second, 'base64')).seal(Buffer.alloc(32), rootPlace);
    await query('UPDATE vault_root SET sealed = $1', [mine]);
    await expect(world.open(under(first))).rejects.toMatchObject({ code: 'credential.unreadable' });
    const elsewhere = { ...rootPlace, purpose: 'credential' };
    const own = createVault(Buffer.from(first, 'base64')).seal(Buffer.alloc(32), elsewhere);
    await query('UPDATE vault_root SET sealed = $1', [own]);
    await expect(world.open(under(first))).rejects.toMatchObject({ code: 'credential.unreadable' });
    await query('UPDATE vault_root SET sealed = $1', [rows[0]?.sealed]);
    await world.open(under(first));
  });

  it('are kept when an installation without a root key is upgraded', async () => {
    const database = await freshDatabase();
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const all = readMigrations();
    const before = all.findIndex(({ name }) => name.endsWith('_vault'));
    await migrate(client, all.slice(0, before));
    const old = createVault(Buffer.from(first, 'base64'));
    const place = { tenantId: 't', purpose: 'signing_key', id: 'k', version: 1 };
    await client.query(
      `INSERT INTO signing_key (tenant_id, kid, purpose, alg, public_jwk, sealed)
       VALUES ('t', 'k', 'export', 'EdDSA', '{}', $1)`,
      [old.seal('private', place)],
    );
    await migrate(client, all);
    await client.end();
    const upgraded = await startVaultWorld(database.url);
    // With a wrong key, no key is adopted.
    await expect(upgraded.open(under(second))).rejects.toThrow(masterKeyId(first));
    // With both keys, the key that wrapped the stored data is used.
    const keys = await upgraded.open(under(second, first));
    expect(keys.keyring.active.id).toBe(masterKeyId(first));
    const { rows } = await upgraded.store.pool.query('SELECT sealed FROM signing_key');
    expect(createVault(keys).open(rows[0]?.sealed, place).toString()).toBe('private');
    expect(createVault(keys).mac('api_key', 'x')).toBe(old.mac('api_key', 'x'));
    await upgraded.close();
    await database.drop();
  });
});

it('every column of the schema that holds an envelope is encrypted again in a rotation', () => {
  const schema = readFileSync('prisma/schema.prisma', 'utf8');
  const listed = new Set(sealedColumns.map(({ table, column }) => `${table}.${column}`));
  const found = [...schema.matchAll(/^model \w+ \{\n([\s\S]*?)^\}/gm)].flatMap(([, body = '']) => {
    const table = /@@map\("(\w+)"\)/.exec(body)?.[1];
    const isSealed = /\bsealed\b|Args\b.*@map|^ {2}body\b|^ {2}arguments +String\?/;
    const lines = body.split('\n').filter((line) => / String\??/.test(line) && isSealed.test(line));
    return lines.map((line) => {
      const name = line.trim().split(/\s+/)[0];
      return `${table}.${/@map\("(\w+)"\)/.exec(line)?.[1] ?? name}`;
    });
  });
  expect(new Set(found)).toEqual(listed);
});
