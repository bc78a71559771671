import { randomBytes } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import type { Log } from '../../../shared/base/log.ts';
import type { Config } from '../config/config.ts';
import { StoreError } from '../store/store-error.ts';
import { assertKeyStates, type KeyState, keyMac } from './key-states.ts';
import { Keyring, wrappingKeyOf } from './keyring.ts';
import type { Kms } from './kms/kms.ts';
import { openKms } from './kms/open-kms.ts';
import { assertLegacyDatabase } from './legacy-database.ts';
import { assertFilePresent, isKeyFiled, loadMasterKeys } from './master-key.ts';
import { createVault, rewrap, type SealedPlace, type VaultKeys, wrappedBy } from './vault.ts';

/** The vault's keys in memory, and the KMS that creates master keys. */
export interface OpenKeys extends VaultKeys {
  readonly kms: Kms | undefined;
  /** Id of the operator's current master key; undefined if only the KMS creates master keys. */
  readonly givenId: string | undefined;
  /** True if all rows that give authority are signed. The root secret's envelope proves this. */
  readonly areRowsSigned: boolean;
  /** True if outbox rows and removed bindings are signed, too. */
  readonly isOutboxSigned: boolean;
}

interface KeyRow extends KeyState {
  readonly wrapped: string | null;
  readonly mac: string | null;
}

/** Place to which the root secret's encryption is bound. It belongs to no tenant. */
export const rootPlace: SealedPlace = { tenantId: '', purpose: 'vault_root', id: '1', version: 1 };

/**
 * Place of the root secret in a database in which all rows that give authority are signed. Unlike a
 * separate marker, this place cannot be reset, because the root does not decrypt with another
 * place.
 */
export const signedRootPlace: SealedPlace = { ...rootPlace, version: 3 };

/**
 * Place of the root secret in a database in which outbox rows and removals of bindings are not
 * signed yet.
 */
export const rowsSignedRootPlace: SealedPlace = { ...rootPlace, version: 2 };

type Deps = Pick<Config, 'kmsKey' | 'kmsAccess'> & Parameters<typeof loadMasterKeys>[0];

/**
 * Decrypts the vault's keys with the master keys of the operator or of a KMS. The first start
 * creates the vault's keys. Throws a `StoreError` if these keys cannot decrypt the database's
 * secrets, so that the problem is found at start.
 */
export async function openKeys(pool: Pool, config: Deps): Promise<OpenKeys> {
  const kms = openKms(config);
  const { rowCount } = await pool.query('SELECT 1 FROM vault_key LIMIT 1');
  if (rowCount !== 0 && isKeyFiled(config)) assertFilePresent(config.dataDir);
  const { current, others } = loadMasterKeys(config);
  const given = [...(current === undefined ? [] : [current]), ...others];
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(`SELECT pg_advisory_xact_lock(hashtextextended('vault_key', 0))`);
    const found = (await readKeys(client)) ?? (await firstKeys(client, { given, kms }));
    await client.query('COMMIT');
    const keyring = await openKeyring(found.keys, { given, kms });
    const opened = openRoot(keyring, found.root);
    assertKeyStates(createVault({ keyring, root: opened.root }), found.keys);
    assertRootWrapped(found);
    const givenId = current && wrappingKeyOf(current).id;
    return { keyring, ...opened, kms, givenId };
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

interface Sources {
  readonly given: readonly Buffer[];
  readonly kms: Kms | undefined;
}

interface Found {
  readonly keys: readonly KeyRow[];
  readonly root: string | undefined;
}

/** Reads the keys and the root in one statement, because a rotation may run at the same time. */
const allKeys = `SELECT id, wrapped, state, activated_at AS "activatedAt", mac,
    (SELECT sealed FROM vault_root) AS root FROM vault_key ORDER BY id`;

async function readKeys(client: ClientBase): Promise<Found | undefined> {
  const { rows: keys } = await client.query<KeyRow & { readonly root: string | null }>(allKeys);
  if (keys.length === 0) return undefined;
  return { keys, root: keys[0]?.root ?? undefined };
}

/** Creates the keys of a first start: a wrapping key, and the root secret that this key wraps. */
async function firstKeys(client: ClientBase, { given, kms }: Sources): Promise<Found> {
  const { rows } = await client.query<{ sealed: string | null }>('SELECT sealed FROM vault_root');
  if (rows[0] !== undefined && rows[0].sealed !== null) {
    throw new StoreError(
      'The database has a vault but no record of its master keys (table vault_key). Restore it from a backup.',
    );
  }
  const made = rows[0] === undefined ? await newKeys(given, kms) : await inherited(client, given);
  const keyring = new Keyring(made.masterKey);
  const { id } = keyring.active;
  // A new installation has no unsigned rows, because it signs every row.
  const place = rows[0] === undefined ? signedRootPlace : rootPlace;
  const vault = createVault({ keyring, root: made.root });
  const root = vault.seal(made.root, place);
  const { wrapped } = made;
  const state = { id, state: 'active', activatedAt: new Date() };
  const key = { ...state, wrapped, mac: keyMac(vault, state) };
  await client.query(
    `INSERT INTO vault_key (id, provider, wrapped, state, activated_at, mac)
     VALUES ($1, $2, $3, 'active', $4, $5)`,
    [id, wrapped === null ? 'environment' : kms?.name, wrapped, key.activatedAt, key.mac],
  );
  await client.query(
    `INSERT INTO vault_root (id, sealed) VALUES (1, $1)
     ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed`,
    [root],
  );
  return { keys: [key], root };
}

interface FirstKeys {
  readonly masterKey: Buffer;
  readonly wrapped: string | null;
  readonly root: Buffer;
}

async function newKeys(given: readonly Buffer[], kms: Kms | undefined): Promise<FirstKeys> {
  const root = randomBytes(32);
  const [masterKey] = given;
  if (kms === undefined && masterKey !== undefined) return { masterKey, wrapped: null, root };
  if (kms === undefined || masterKey !== undefined) {
    throw new StoreError(
      'A new installation takes its master key from SALLYPORT_MASTER_KEY or from SALLYPORT_KMS_KEY: set exactly one of them.',
    );
  }
  const { key, wrapped } = await kms.makeKey();
  return { masterKey: key, wrapped, root };
}

/**
 * Returns the keys of an installation that has no root secret yet. Its keyed hashes use the master
 * key that wraps its secrets.
 */
async function inherited(client: ClientBase, given: readonly Buffer[]): Promise<FirstKeys> {
  await assertLegacyDatabase(client);
  const { rows } = await client.query<{ kid: string; sealed: string }>(
    'SELECT kid, sealed FROM signing_key',
  );
  const id = rows[0] && wrappedBy(rows[0].sealed);
  const masterKey = id === undefined ? given[0] : given.find((key) => wrappingKeyOf(key).id === id);
  if (masterKey === undefined) throw unknownKey(id ?? 'its first');
  const keyring = new Keyring(masterKey);
  // Decrypts every secret with this key. Such an installation had a single master key, and a key id
  // alone can be forged.
  for (const { kid, sealed } of rows) rewrap(keyring, sealed, kid);
  return { masterKey, wrapped: null, root: masterKey };
}

async function openKeyring(all: readonly KeyRow[], { given, kms }: Sources): Promise<Keyring> {
  const rows = all.filter(({ state }) => state !== 'retired');
  const fromKms = rows.flatMap(({ id, wrapped }) => (wrapped === null ? [] : { id, wrapped }));
  const unwrapped = await Promise.all(fromKms.map((row) => unwrapKey(kms, row)));
  const [first, ...others] = [...given, ...unwrapped];
  if (first === undefined) throw unknownKey(rows[0]?.id ?? 'its first');
  const keyring = new Keyring(first);
  for (const masterKey of others) keyring.add(masterKey);
  for (const { id, state } of rows) {
    // An announced key has not wrapped anything yet, so this process need not know it.
    if (state !== 'announced' && keyring.find(id) === undefined) throw unknownKey(id);
    if (state === 'active') keyring.activate(id);
  }
  return keyring;
}

function unknownKey(id: string): StoreError {
  return new StoreError(
    `Secrets of this database are wrapped by the master key ${id}, which is not configured. Set SALLYPORT_MASTER_KEY to it; ` +
      'while it is being replaced, SALLYPORT_MASTER_KEY_PREVIOUS.',
  );
}

/** Decrypts a master key with the KMS. Throws if the result is not the key that the row names. */
export async function unwrapKey(
  kms: Kms | undefined,
  { id, wrapped }: { readonly id: string; readonly wrapped: string },
): Promise<Buffer> {
  if (kms === undefined) {
    throw new StoreError(
      `The master key ${id} of this database is kept by a KMS: set SALLYPORT_KMS_KEY.`,
    );
  }
  const key = await kms.unwrap(wrapped);
  if (wrappingKeyOf(key).id === id) return key;
  throw new StoreError(`The KMS returned another master key than ${id}.`);
}

/**
 * Throws if an announced or unknown key wraps the root. Such a key has wrapped nothing, so a
 * database writer must have restored older states.
 */
function assertRootWrapped({ keys, root }: Found): void {
  const id = root === undefined ? undefined : wrappedBy(root);
  if (keys.some((key) => key.id === id && ['active', 'retiring'].includes(key.state))) return;
  throw new StoreError(
    `The root secret is wrapped by the master key ${id}, which was never active according to table vault_key. ` +
      'Restore vault_key and vault_root from one backup.',
  );
}

function openRoot(
  keyring: Keyring,
  sealed: string | undefined,
): Pick<OpenKeys, 'root' | 'areRowsSigned' | 'isOutboxSigned'> {
  if (sealed === undefined) {
    throw new StoreError(
      'The root secret of the vault is missing (table vault_root): restore it from a backup. Without it no API key can be verified.',
    );
  }
  const vault = createVault({ keyring, root: Buffer.alloc(32) });
  for (const [place, areRowsSigned, isOutboxSigned] of signedPlaces) {
    try {
      return { root: vault.open(sealed, place), areRowsSigned, isOutboxSigned };
    } catch {
      // The root is sealed with another place, or it is forged and decrypts with no place.
    }
  }
  return { root: vault.open(sealed, rootPlace), areRowsSigned: false, isOutboxSigned: false };
}

const signedPlaces = [
  [signedRootPlace, true, true],
  [rowsSignedRootPlace, true, false],
] as const;

/**
 * Records that all rows are signed, so that no later start accepts unsigned rows as legacy ones.
 */
export async function noteRowsSigned(pool: Pool, { keyring, root }: VaultKeys): Promise<void> {
  const { rows } = await pool.query<{ sealed: string }>('SELECT sealed FROM vault_root');
  const before = rows[0]?.sealed;
  if (before === undefined) return;
  const sealed = createVault({ keyring, root }).seal(root, signedRootPlace);
  // If a rotation wraps the root at the same time, this update matches no row. The next start then
  // repeats it.
  await pool.query('UPDATE vault_root SET sealed = $1 WHERE sealed = $2', [sealed, before]);
}

/**
 * Loads the master keys that were announced or activated since the last call, and reports the keys
 * that this process knows. If the database or the KMS is unavailable, throws and changes nothing.
 */
export async function refreshKeys(
  { keyring, kms, root }: Pick<OpenKeys, 'keyring' | 'kms' | 'root'>,
  { pool, log, holderId }: { readonly pool: Pool; readonly log: Log; readonly holderId: string },
): Promise<void> {
  const { rows } = await pool.query<KeyRow>(allKeys);
  assertKeyStates(createVault({ keyring, root }), rows);
  assertStillKnown(keyring, rows);
  for (const { id, wrapped, state } of rows) {
    if (wrapped === null || state === 'retired' || keyring.find(id) !== undefined) continue;
    try {
      keyring.add(await unwrapKey(kms, { id, wrapped }));
    } catch (err) {
      log.warn({ err, key: id }, 'could not get a master key from the KMS');
    }
  }
  const active = rows.find(({ state }) => state === 'active');
  if (active !== undefined && !keyring.activate(active.id)) {
    log.error({ key: active.id }, 'this process does not have the active master key');
  }
  await pool.query(
    `INSERT INTO vault_holder (id, keys, active, seen_at) VALUES ($1, $2, $3, clock_timestamp())
     ON CONFLICT (id) DO UPDATE
       SET keys = excluded.keys, active = excluded.active, seen_at = excluded.seen_at`,
    [holderId, keyring.ids, keyring.active.id],
  );
}

/**
 * Throws if key states were restored from an older backup. Their signatures are still valid, but
 * they do not contain the key that is active in this process, or contain it only as announced.
 */
function assertStillKnown({ active: { id } }: Keyring, rows: readonly KeyRow[]): void {
  if (rows.some((row) => row.id === id && row.state !== 'announced')) return;
  throw new StoreError(`Table vault_key no longer records the master key ${id} as active.`);
}
