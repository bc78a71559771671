import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describeFileError } from '../../../shared/base/file-error.ts';
import { SettingsError } from '../../../shared/base/settings.ts';
import type { Config } from '../config/config.ts';

const keyBytes = 32;
const fileName = 'master.key';
const nextName = 'master.key.next';

/** The master keys that the operator supplied. */
export interface MasterKeys {
  /** Key that will wrap all secrets; undefined if a KMS creates it. */
  readonly current: Buffer | undefined;
  /** Other keys that may still wrap secrets while the master key is being replaced. */
  readonly others: readonly Buffer[];
}

type Given = Pick<
  Config,
  'masterKey' | 'masterKeyPrevious' | 'kmsKey' | 'dataDir' | 'databaseUrl' | 'production'
>;

/**
 * Loads the 32 bytes that protect everything at rest. They come from `SALLYPORT_MASTER_KEY` (or
 * `_FILE`) or, in embedded mode, from the data directory, where the first start creates them. With
 * an external database or in production, a missing key is an error unless a KMS creates it: a
 * generated key would be lost with the container, and all secrets with it.
 */
export function loadMasterKeys(given: Given): MasterKeys {
  const { masterKey, masterKeyPrevious, kmsKey, dataDir } = given;
  const previous =
    masterKeyPrevious === undefined
      ? []
      : [decode(masterKeyPrevious, 'SALLYPORT_MASTER_KEY_PREVIOUS')];
  if (masterKey !== undefined) {
    return { current: decode(masterKey, 'SALLYPORT_MASTER_KEY'), others: previous };
  }
  if (kmsKey !== undefined) return { current: undefined, others: previous };
  if (!isKeyFiled(given)) {
    throw new SettingsError(
      'SALLYPORT_MASTER_KEY is missing: set it, or SALLYPORT_MASTER_KEY_FILE, to 32 random bytes in base64 (openssl rand -base64 32), and keep a copy. Only embedded mode creates one itself.',
    );
  }
  const filed = readOwn(join(dataDir, fileName)) ?? makeFile(dataDir, fileName);
  const next = readOwn(join(dataDir, nextName));
  return next === undefined
    ? { current: filed, others: previous }
    : { current: next, others: [filed, ...previous] };
}

/** Returns whether Sallyport itself keeps the master key in a file. */
export function isKeyFiled({
  masterKey,
  kmsKey,
  databaseUrl,
  production,
}: Omit<Given, 'masterKeyPrevious' | 'dataDir'>): boolean {
  return (
    masterKey === undefined && kmsKey === undefined && databaseUrl === undefined && !production
  );
}

/** Throws if the key file is missing, because a new key could not decrypt the existing secrets. */
export function assertFilePresent(dataDir: string): void {
  const path = join(dataDir, fileName);
  if (!existsSync(path) && !existsSync(join(dataDir, nextName))) throw unusable(path, 'is missing');
}

/** Creates the next master key in the data directory, unless this key already exists. */
export function makeNextMasterKey(dataDir: string): void {
  if (readOwn(join(dataDir, nextName)) === undefined) makeFile(dataDir, nextName);
}

/** Replaces the master key by the next one. Call it when no secret needs the old key any longer. */
export function adoptNextMasterKey(dataDir: string): void {
  renameSync(join(dataDir, nextName), join(dataDir, fileName));
  syncFolder(dataDir);
}

function decode(text: string, from: string): Buffer {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, 'base64');
  const isBase64 = /^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed);
  if (isBase64 && key.length === keyBytes) return key;
  throw new SettingsError(`${from} must be base64 of exactly ${keyBytes} bytes.`);
}

function readOwn(path: string): Buffer | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  if ((stats.mode & 0o077) !== 0) {
    throw new SettingsError(
      `${path} can be read by other users: chmod 600 it, and treat the key as leaked.`,
    );
  }
  if (!stats.isFile()) throw unusable(path, 'is not a file');
  const text = readText(path);
  if (text.trim() === '') throw unusable(path, 'is empty');
  return decode(text, path);
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw unusable(path, describeFileError(cause, path) ?? 'cannot be read', cause);
  }
}

/**
 * Returns the error for an unusable key file. Sallyport then creates no new key, because only the
 * key in this file decrypts the secrets.
 */
function unusable(path: string, found: string, cause?: unknown): SettingsError {
  return new SettingsError(
    `The master key ${path} ${found}. It protects every secret in the data directory: restore it from a backup.`,
    { cause },
  );
}

/**
 * Writes a temporary file and links it to the final path. If two processes start at once, only one
 * of them creates the key, and neither reads a partial key.
 */
function makeFile(dataDir: string, name: string): Buffer {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, name);
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(keyBytes).toString('base64')}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  });
  chmodSync(draft, 0o600);
  try {
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft);
  }
  syncFolder(dataDir);
  const made = readOwn(path);
  if (made === undefined) throw new SettingsError(`${path} could not be made.`);
  return made;
}

/**
 * Flushes the folder to disk: if a power failure lost the name of the key's file, all secrets that
 * the key wraps would be lost.
 */
function syncFolder(folder: string): void {
  const handle = openSync(folder, 'r');
  fsyncSync(handle);
  closeSync(handle);
}
