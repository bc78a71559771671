import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  adoptNextMasterKey,
  loadMasterKeys,
  makeNextMasterKey,
} from '../../../../control-plane/platform/vault/master-key.ts';
import { SettingsError } from '../../../../shared/base/settings.ts';

let folder: string;
let dataDir: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-key-'));
  dataDir = join(folder, 'data');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const loadMasterKey = (given: Parameters<typeof loadMasterKeys>[0]) =>
  loadMasterKeys(given).current;

const settings = (more: object = {}) => ({
  masterKey: undefined,
  masterKeyPrevious: undefined,
  kmsKey: undefined,
  databaseUrl: undefined,
  production: false,
  dataDir,
  ...more,
});

it('the master key is read from SALLYPORT_MASTER_KEY', () => {
  const key = randomBytes(32);
  expect(loadMasterKey(settings({ masterKey: key.toString('base64') }))).toEqual(key);
});

it.each([
  '',
  'x',
  randomBytes(16).toString('base64'),
  randomBytes(33).toString('base64'),
  '-'.repeat(60),
])('%j is refused as a master key, without being quoted', (masterKey) => {
  const load = () => loadMasterKey(settings({ masterKey }));
  expect(load).toThrow(SettingsError);
  if (masterKey.length > 1) expect(load).not.toThrow(masterKey);
});

it('the embedded mode creates a master key once, readable by its owner only', () => {
  const made = loadMasterKey(settings());
  expect(made).toHaveLength(32);
  expect(loadMasterKey(settings())).toEqual(made);
  expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600);
  expect(readdirSync(dataDir)).toEqual(['master.key']);
});

it('two processes that start at the same time get the same master key', async () => {
  const module = resolve('control-plane/platform/vault/master-key.ts');
  const script = `import { loadMasterKeys } from ${JSON.stringify(module)};
    const { current: key } = loadMasterKeys({ masterKey: undefined, databaseUrl: undefined, production: false, dataDir: ${JSON.stringify(dataDir)} });
    console.log(key.toString('hex'));`;
  const start = () => promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  const outputs = await Promise.all([start(), start(), start()]);
  expect(new Set(outputs.map(({ stdout }) => stdout)).size).toBe(1);
});

it('a key file that other users can read is refused', () => {
  loadMasterKey(settings());
  chmodSync(join(dataDir, 'master.key'), 0o644);
  expect(() => loadMasterKey(settings())).toThrow('can be read by other users');
});

it('a malformed key file is refused and not overwritten', () => {
  loadMasterKey(settings());
  writeFileSync(join(dataDir, 'master.key'), 'short');
  expect(() => loadMasterKey(settings())).toThrow('exactly 32 bytes');
});

it.each([{ production: true }, { databaseUrl: 'postgresql://db' }])(
  'no master key file is created with the settings %j, because the encrypted data outlives the folder',
  (more) => {
    expect(() => loadMasterKey(settings(more))).toThrow(/SALLYPORT_MASTER_KEY is missing/);
  },
);

it('the previous master key is read from SALLYPORT_MASTER_KEY_PREVIOUS', () => {
  const [key, previous] = [randomBytes(32), randomBytes(32)];
  const given = {
    masterKey: key.toString('base64'),
    masterKeyPrevious: previous.toString('base64'),
  };
  expect(loadMasterKeys(settings(given))).toEqual({ current: key, others: [previous] });
  const wrong = { ...given, masterKeyPrevious: 'x' };
  expect(() => loadMasterKeys(settings(wrong))).toThrow('SALLYPORT_MASTER_KEY_PREVIOUS must be');
});

it('the embedded mode loads both the previous and the next master key until the next key is adopted', () => {
  const first = loadMasterKey(settings());
  makeNextMasterKey(dataDir);
  const both = loadMasterKeys(settings());
  expect(both.others).toEqual([first]);
  makeNextMasterKey(dataDir);
  expect(loadMasterKeys(settings())).toEqual(both);
  adoptNextMasterKey(dataDir);
  expect(loadMasterKeys(settings())).toEqual({ current: both.current, others: [] });
  expect(readdirSync(dataDir)).toEqual(['master.key']);
});

it('no master key is required in the settings if a KMS provides it', () => {
  const kms = { kmsKey: 'vault:https://vault.example/v1/transit/keys/k', production: true };
  expect(loadMasterKeys(settings(kms))).toEqual({ current: undefined, others: [] });
});
