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

/** The vault's keys as a control plane holds them, and where new master keys come from. */
export interface OpenKeys extends VaultKeys {
  readonly kms: Kms | undefined;
  /** The operator's present master key; undefined where only the KMS makes them. */
  readonly givenId: string | undefined;
  /** No row of this database is from before rows were signed; the root secret's envelope says so. */
  readonly areRowsSigned: boolean;
  /** The same of the outbox and of removed bindings. */
  readonly isOutboxSigned: boolean;
}

interface KeyRow extends KeyState {
  readonly wrapped: string | null;
  readonly mac: string | null;
}

/** Where the root secret is sealed: it is nobody's row. */
export const rootPlace: SealedPlace = { tenantId: '', purpose: 'vault_root', id: '1', version: 1 };

/**
 * The same, of a database in which all rows that give authority are signed. Unlike a marker beside
 * it, it cannot be taken back: without the root there is no start, and with it it says what it says.
 */
export const signedRootPlace: SealedPlace = { ...rootPlace, version: 3 };

/** The same, of a database in which outbox rows and removals of bindings are not signed yet. */
export const rowsSignedRootPlace: SealedPlace = { ...rootPlace, version: 2 };

type Deps = Pick<Config, 'kmsKey' | 'kmsAccess'> & Parameters<typeof loadMasterKeys>[0];

/**
 * Opens what the database keeps of the vault's keys with the master keys that the operator or a
 * KMS gives. The first start makes them. Refuses, with a `StoreError`, a database whose secrets
 * it could not read: better no start than one that fails at each of them.
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

/** In one statement, for a rotation may be under way. */
const allKeys = `SELECT id, wrapped, state, activated_at AS "activatedAt", mac,
    (SELECT sealed FROM vault_root) AS root FROM vault_key ORDER BY id`;

async function readKeys(client: ClientBase): Promise<Found | undefined> {
  const { rows: keys } = await client.query<KeyRow & { readonly root: string | null }>(allKeys);
  if (keys.length === 0) return undefined;
  return { keys, root: keys[0]?.root ?? undefined };
}

/** What the first start leaves: a key that wraps, and the root secret wrapped by it. */
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
  // What a new installation writes is signed from its first row on.
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
      'A new installation has its master key from SALLYPORT_MASTER_KEY or from SALLYPORT_KMS_KEY: set one of them.',
    );
  }
  const { key, wrapped } = await kms.makeKey();
  return { masterKey: key, wrapped, root };
}

/** An installation from before there was a root: its hashes are under the master key that wraps its secrets. */
async function inherited(client: ClientBase, given: readonly Buffer[]): Promise<FirstKeys> {
  await assertLegacyDatabase(client);
  const { rows } = await client.query<{ kid: string; sealed: string }>(
    'SELECT kid, sealed FROM signing_key',
  );
  const id = rows[0] && wrappedBy(rows[0].sealed);
  const masterKey = id === undefined ? given[0] : given.find((key) => wrappingKeyOf(key).id === id);
  if (masterKey === undefined) throw unknownKey(id ?? 'its first');
  const keyring = new Keyring(masterKey);
  // There was one master key only, and it wraps them all: a key's name is easily written.
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
    // What is only announced has wrapped nothing yet.
    if (state !== 'announced' && keyring.find(id) === undefined) throw unknownKey(id);
    if (state === 'active') keyring.activate(id);
  }
  return keyring;
}

function unknownKey(id: string): StoreError {
  return new StoreError(
    `Secrets of this database are wrapped by the master key ${id}, which was not given. Set SALLYPORT_MASTER_KEY to it; ` +
      'while it is being replaced, SALLYPORT_MASTER_KEY_PREVIOUS.',
  );
}

/** A master key that a KMS keeps; refuses one that is not the row's, whoever put it there. */
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
  throw new StoreError(`The KMS gives another master key than ${id}.`);
}

/**
 * A key that is only announced, or that nobody knows of, has wrapped nothing: where the root is
 * under it, who can write to the database put the states of before back.
 */
function assertRootWrapped({ keys, root }: Found): void {
  const id = root === undefined ? undefined : wrappedBy(root);
  if (keys.some((key) => key.id === id && ['active', 'retiring'].includes(key.state))) return;
  throw new StoreError(
    `The root secret is wrapped by the master key ${id}, which table vault_key does not say was ever in force. ` +
      'Restore vault_key and vault_root from one backup.',
  );
}

function openRoot(
  keyring: Keyring,
  sealed: string | undefined,
): Pick<OpenKeys, 'root' | 'areRowsSigned' | 'isOutboxSigned'> {
  if (sealed === undefined) {
    throw new StoreError(
      'The root secret of the vault is missing (table vault_root): restore it from a backup. Without it no API key is known.',
    );
  }
  const vault = createVault({ keyring, root: Buffer.alloc(32) });
  for (const [place, areRowsSigned, isOutboxSigned] of signedPlaces) {
    try {
      return { root: vault.open(sealed, place), areRowsSigned, isOutboxSigned };
    } catch {
      // Sealed at an earlier place, or not ours: then none opens.
    }
  }
  return { root: vault.open(sealed, rootPlace), areRowsSigned: false, isOutboxSigned: false };
}

const signedPlaces = [
  [signedRootPlace, true, true],
  [rowsSignedRootPlace, true, false],
] as const;

/** From now on no start takes a row of this database for one of before rows were signed. */
export async function noteRowsSigned(pool: Pool, { keyring, root }: VaultKeys): Promise<void> {
  const { rows } = await pool.query<{ sealed: string }>('SELECT sealed FROM vault_root');
  const before = rows[0]?.sealed;
  if (before === undefined) return;
  const sealed = createVault({ keyring, root }).seal(root, signedRootPlace);
  // While it is being wrapped anew, the next start does it.
  await pool.query('UPDATE vault_root SET sealed = $1 WHERE sealed = $2', [sealed, before]);
}

/**
 * Learns of master keys that were announced or put in force since, and tells what is known here.
 * Throws when the database or the KMS cannot be asked; then everything stays as it was.
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
      log.warn({ err, key: id }, 'a master key could not be had from the KMS');
    }
  }
  const active = rows.find(({ state }) => state === 'active');
  if (active !== undefined && !keyring.activate(active.id)) {
    log.error({ key: active.id }, 'the master key in force is not known here');
  }
  await pool.query(
    `INSERT INTO vault_holder (id, keys, active, seen_at) VALUES ($1, $2, $3, clock_timestamp())
     ON CONFLICT (id) DO UPDATE
       SET keys = excluded.keys, active = excluded.active, seen_at = excluded.seen_at`,
    [holderId, keyring.ids, keyring.active.id],
  );
}

/** A former state put back whole still verifies: what is in force here is then no key that ever was. */
function assertStillKnown({ active: { id } }: Keyring, rows: readonly KeyRow[]): void {
  if (rows.some((row) => row.id === id && row.state !== 'announced')) return;
  throw new StoreError(
    `Table vault_key does not say any more that the master key ${id} is in force.`,
  );
}
