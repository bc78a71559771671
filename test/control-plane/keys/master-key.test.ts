import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadMasterKey } from '../../../control-plane/keys/master-key.ts';
import { SettingsError } from '../../../shared/settings.ts';

let folder: string;
let dataDir: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-key-'));
  dataDir = join(folder, 'data');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const settings = (more: object = {}) => ({
  masterKey: undefined,
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
  const module = resolve('control-plane/keys/master-key.ts');
  const script = `import { loadMasterKey } from ${JSON.stringify(module)};
    const key = loadMasterKey({ masterKey: undefined, databaseUrl: undefined, production: false, dataDir: ${JSON.stringify(dataDir)} });
    console.log(key.toString('hex'));`;
  const start = () => promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  const outputs = await Promise.all([start(), start(), start()]);
  expect(new Set(outputs.map(({ stdout }) => stdout)).size).toBe(1);
});

it('refuses a key file that others can read', () => {
  loadMasterKey(settings());
  chmodSync(join(dataDir, 'master.key'), 0o644);
  expect(() => loadMasterKey(settings())).toThrow('can be read by others');
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
