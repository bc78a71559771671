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

it('takes the key that is given', () => {
  const key = randomBytes(32);
  expect(loadMasterKey(settings({ masterKey: key.toString('base64') }))).toEqual(key);
});

it.each([
  '',
  'x',
  randomBytes(16).toString('base64'),
  randomBytes(33).toString('base64'),
  '-'.repeat(60),
])('refuses %j as a key, without repeating it', (masterKey) => {
  const load = () => loadMasterKey(settings({ masterKey }));
  expect(load).toThrow(SettingsError);
  if (masterKey.length > 1) expect(load).not.toThrow(masterKey);
});

it('embedded, makes a key once, for its owner’s eyes only', () => {
  const made = loadMasterKey(settings());
  expect(made).toHaveLength(32);
  expect(loadMasterKey(settings())).toEqual(made);
  expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600);
  expect(readdirSync(dataDir)).toEqual(['master.key']);
});

it('gives two processes that start at once the same key', async () => {
  const module = resolve('control-plane/platform/vault/master-key.ts');
  const script = `import { loadMasterKeys } from ${JSON.stringify(module)};
    const { current: key } = loadMasterKeys({ masterKey: undefined, databaseUrl: undefined, production: false, dataDir: ${JSON.stringify(dataDir)} });
    console.log(key.toString('hex'));`;
  const start = () => promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  const outputs = await Promise.all([start(), start(), start()]);
  expect(new Set(outputs.map(({ stdout }) => stdout)).size).toBe(1);
});

it('refuses a key file that others can read', () => {
  loadMasterKey(settings());
  chmodSync(join(dataDir, 'master.key'), 0o644);
  expect(() => loadMasterKey(settings())).toThrow('can be read by other users');
});

it('refuses a key file that holds something else, and leaves it alone', () => {
  loadMasterKey(settings());
  writeFileSync(join(dataDir, 'master.key'), 'short');
  expect(() => loadMasterKey(settings())).toThrow('exactly 32 bytes');
});

it.each([{ production: true }, { databaseUrl: 'postgresql://db' }])(
  'makes no key on the side with %j: what it would protect outlives the folder',
  (more) => {
    expect(() => loadMasterKey(settings(more))).toThrow(/SALLYPORT_MASTER_KEY is missing/);
  },
);

it('knows the key before it, where that is given', () => {
  const [key, previous] = [randomBytes(32), randomBytes(32)];
  const given = {
    masterKey: key.toString('base64'),
    masterKeyPrevious: previous.toString('base64'),
  };
  expect(loadMasterKeys(settings(given))).toEqual({ current: key, others: [previous] });
  const wrong = { ...given, masterKeyPrevious: 'x' };
  expect(() => loadMasterKeys(settings(wrong))).toThrow('SALLYPORT_MASTER_KEY_PREVIOUS must be');
});

it('embedded, knows the key that follows and the one it follows, until that is adopted', () => {
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

it('needs no key of the operator where a KMS has one', () => {
  const kms = { kmsKey: 'vault:https://vault.example/v1/transit/keys/k', production: true };
  expect(loadMasterKeys(settings(kms))).toEqual({ current: undefined, others: [] });
});
