import { randomBytes } from 'node:crypto';
import { createLedger } from '../../../control-plane/ledger/sealing/ledger.ts';
import { createRowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { createSigningKeys } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import { openStore, type Store } from '../../../control-plane/platform/store/open.ts';
import { wrappingKeyOf } from '../../../control-plane/platform/vault/keyring.ts';
import { type OpenKeys, openKeys } from '../../../control-plane/platform/vault/open-keys.ts';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import { rotateMasterKey } from '../../../control-plane/vault/rotate-master-key.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { testConfig } from './services.ts';

type Env = Readonly<Record<string, string>>;

export const masterKey = (): string => randomBytes(32).toString('base64');

/** Returns the id that a master key has in the vault. */
export const masterKeyId = (key: string): string => wrappingKeyOf(Buffer.from(key, 'base64')).id;

/** Returns settings with this master key and, during a rotation, the previous one. */
export const under = (current: string, previous?: string): Env => ({
  SALLYPORT_MASTER_KEY: current,
  ...(previous === undefined ? {} : { SALLYPORT_MASTER_KEY_PREVIOUS: previous }),
});

/**
 * A database, and functions that open the vault's keys as control planes with these settings would.
 */
export interface VaultWorld {
  readonly store: Store;
  readonly url: string;
  open(env: Env): Promise<OpenKeys>;
  /** Rotates the master key as `sallyport vault rotate-master-key` would with these settings. */
  rotate(
    env: Env,
    options?: { patienceMs?: number; onProgress?: (step: string) => void },
  ): ReturnType<typeof rotateMasterKey>;
  close(): Promise<void>;
}

/** Opens the database with the given URL, or creates one. */
export async function startVaultWorld(databaseUrl?: string): Promise<VaultWorld> {
  const database =
    databaseUrl === undefined ? await freshDatabase() : { url: databaseUrl, drop: async () => {} };
  const store = await openStore({ databaseUrl: database.url, dataDir: '', log: silentLog });
  const { db, pool } = store;
  const open = (env: Env) => openKeys(pool, testConfig({ DATABASE_URL: database.url, ...env }));
  return {
    store,
    url: database.url,
    open,
    async rotate(env, options) {
      const keys = await open(env);
      const clock = systemClock;
      const vault = createVault(keys);
      const guard = createRowGuard({ pool, clock, log: silentLog, vault });
      const signingKeys = createSigningKeys({ db, clock, vault, guard });
      const ledger = createLedger({ db, pool, signingKeys, vault, clock, log: silentLog });
      try {
        return await rotateMasterKey(keys, { db, pool, clock, ledger }, options);
      } finally {
        await ledger.close();
      }
    },
    async close() {
      await store.close();
      await database.drop();
    },
  };
}

/** Returns the tables that contain data wrapped by this key. Searches all existing tables. */
export async function tablesUnder(
  { store }: Pick<VaultWorld, 'store'>,
  id: string,
): Promise<string[]> {
  const { rows } = await store.pool.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables
      WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`,
  );
  const holding: string[] = [];
  for (const { name } of rows) {
    // In the text form of a row, quotes within a column's text are doubled.
    const { rows: hits } = await store.pool.query(
      `SELECT FROM "${name}" t WHERE strpos(t::text, $1) > 0 LIMIT 1`,
      [`""kek_id"":""${id}""`],
    );
    if (hits.length > 0) holding.push(name);
  }
  return holding;
}
