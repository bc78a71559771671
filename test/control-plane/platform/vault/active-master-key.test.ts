import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRowGuard } from '../../../../control-plane/platform/integrity/row-guard.ts';
import { createSigningKeys } from '../../../../control-plane/platform/signing-keys/signing-keys.ts';
import { StoreError } from '../../../../control-plane/platform/store/store-error.ts';
import { holdKeys } from '../../../../control-plane/platform/vault/hold-keys.ts';
import { keyMac } from '../../../../control-plane/platform/vault/key-states.ts';
import { type OpenKeys, refreshKeys } from '../../../../control-plane/platform/vault/open-keys.ts';
import { createVault } from '../../../../control-plane/platform/vault/vault.ts';
import { systemClock } from '../../../../shared/base/clock.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import {
  masterKey,
  masterKeyId,
  startVaultWorld,
  under,
  type VaultWorld,
} from '../../../support/control-plane/vault-world.ts';

const [first, second] = [masterKey(), masterKey()];

let world: VaultWorld;
beforeEach(async () => {
  world = await startVaultWorld();
});
afterEach(() => world.close());

const query = (sql: string, values: unknown[] = []) => world.store.pool.query(sql, values);

/** Stores a signed row, and a signing key that the master key wraps. */
async function seed(keys: OpenKeys): Promise<void> {
  const vault = createVault(keys);
  const { db, pool } = world.store;
  const guard = createRowGuard({ pool, clock: systemClock, log: silentLog, vault });
  await query("INSERT INTO tenant (id, name) VALUES ('t', 't')");
  await createSigningKeys({ db, vault, clock: systemClock, guard }).active('t', 'export');
}

describe('the active master key', () => {
  const both = under(second, first);

  it('cannot be changed by a database writer, neither at startup nor in a running process', async () => {
    await seed(await world.open(under(first)));
    const { rows: before } = await query('SELECT state, mac, activated_at FROM vault_key');
    await world.rotate(both);
    const keys = await world.open(both);
    const running = { pool: world.store.pool, log: silentLog, holderId: 'holder_1' };
    const put = (id: string, set: string, values: unknown[] = []) =>
      query(`UPDATE vault_key SET ${set} WHERE id = '${id}'`, values);
    await query('CREATE TABLE kept AS SELECT * FROM vault_key');
    const old = 'state = $1, mac = $2, activated_at = $3';
    const forgeries = [
      async () => {
        await put(masterKeyId(second), `state = 'retiring'`);
        await put(masterKeyId(first), `state = 'active', activated_at = now() + interval '1 day'`);
      },
      // Restores a complete row whose signature was valid earlier.
      async () => {
        await query(`DELETE FROM vault_key WHERE id = '${masterKeyId(second)}'`);
        await put(masterKeyId(first), old, Object.values(before[0]));
      },
      async () => {
        await put(masterKeyId(second), `state = 'retired', mac = NULL`);
        await put(masterKeyId(first), old, Object.values(before[0]));
      },
      () => put(masterKeyId(first), `state = 'retiring'`),
    ];
    for (const forge of forgeries) {
      await forge();
      await expect(world.open(both)).rejects.toThrow(StoreError);
      await expect(world.rotate(both)).rejects.toThrow(StoreError);
      await expect(refreshKeys(keys, running)).rejects.toThrow(StoreError);
      expect(keys.keyring.active.id).toBe(masterKeyId(second));
      await query('DELETE FROM vault_key');
      await query('INSERT INTO vault_key SELECT * FROM kept');
    }
    await refreshKeys(keys, running);
    expect((await world.open(both)).keyring.active.id).toBe(masterKeyId(second));
  });

  it('replaces the previous key even if the clock of a control plane is behind', async () => {
    await world.open(under(first));
    const ahead = new Date(Date.now() + 86_400_000);
    const keys = await world.open(under(first));
    const state = { id: masterKeyId(first), state: 'active', activatedAt: ahead };
    const data = { ...state, mac: keyMac(createVault(keys), state) };
    await world.store.db.vaultKey.update({ where: { id: state.id }, data });
    await world.rotate(both);
    expect((await world.open(both)).keyring.active.id).toBe(masterKeyId(second));
  });
});

describe('the root key of a database', () => {
  it.each([
    ['rows are signed', 'DELETE FROM vault_holder'],
    ['a control plane has registered its keys', `UPDATE signing_key SET mac = NULL`],
  ])('is not assumed to be the master key if %s', async (_what, more) => {
    const keys = await world.open(under(first));
    await seed(keys);
    await (await holdKeys(keys, { pool: world.store.pool, log: silentLog })).close();
    await query(`INSERT INTO vault_holder VALUES ('holder_gone', '{}', $1)`, [masterKeyId(first)]);
    await query('UPDATE vault_root SET sealed = NULL');
    await query('DELETE FROM vault_key');
    await query(more);
    await expect(world.open(under(first))).rejects.toThrow(/vault_root and vault_key.*backup/);
    expect((await query('SELECT sealed FROM vault_root')).rows).toEqual([{ sealed: null }]);
  });

  it('is not assumed to be the master key if a sealed key was only relabelled with the master key’s id', async () => {
    const place = { tenantId: 't', purpose: 'signing_key', id: 'k', version: 1 };
    const sealed = createVault(Buffer.from(second, 'base64')).seal('private', place);
    await query('INSERT INTO vault_root VALUES (1, NULL)');
    await query(
      `INSERT INTO signing_key (tenant_id, kid, purpose, alg, public_jwk, sealed)
       VALUES ('t', 'k', 'export', 'EdDSA', '{}', $1)`,
      [sealed.replace(masterKeyId(second), masterKeyId(first))],
    );
    await expect(world.open(under(second, first))).rejects.toThrow();
    expect((await query('SELECT FROM vault_key')).rows).toEqual([]);
  });
});
