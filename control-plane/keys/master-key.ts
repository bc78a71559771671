import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { SettingsError } from '../../shared/settings.ts';
import type { Config } from '../config.ts';

const keyBytes = 32;
const fileName = 'master.key';

/**
 * The 32 bytes that protect everything at rest: from `SALLYPORT_MASTER_KEY` (or `_FILE`), or, in
 * embedded mode, from the data directory, where the first start makes them. With a database of
 * its own, or in production, a missing key is an error: one made on the side would be lost with
 * the container, and every secret with it.
 */
export function loadMasterKey({
  masterKey,
  dataDir,
  databaseUrl,
  production,
}: Pick<Config, 'masterKey' | 'dataDir' | 'databaseUrl' | 'production'>): Buffer {
  if (masterKey !== undefined) return decode(masterKey, 'SALLYPORT_MASTER_KEY');
  if (production || databaseUrl !== undefined) {
    throw new SettingsError(
      'SALLYPORT_MASTER_KEY is missing: set it, or SALLYPORT_MASTER_KEY_FILE, to 32 random bytes in base64 (openssl rand -base64 32), and keep a copy. Only embedded mode makes one by itself.',
    );
  }
  const path = join(dataDir, fileName);
  const found = readOwn(path);
  if (found !== undefined) return found;
  makeFile(dataDir, path);
  const made = readOwn(path);
  if (made === undefined) throw new SettingsError(`${path} could not be made.`);
  return made;
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
    throw new SettingsError(`${path} can be read by others: chmod 600 it, and consider it known.`);
  }
  return decode(readFileSync(path, 'utf8'), path);
}

/** Made whole beside its place and linked there: of two processes that start at once one wins, and nobody reads half a key. */
function makeFile(dataDir: string, path: string): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(keyBytes).toString('base64')}\n`, {
    mode: 0o600,
    flag: 'wx',
  });
  chmodSync(draft, 0o600);
  try {
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft);
  }
}
