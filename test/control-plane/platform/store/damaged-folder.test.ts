import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbedded } from '../../../../cli/embedded/start-embedded.ts';
import { embeddedMajor } from '../../../../control-plane/platform/store/inspect-folder.ts';
import { openStore } from '../../../../control-plane/platform/store/open.ts';
import { loadMasterKeys } from '../../../../control-plane/platform/vault/master-key.ts';
import { openKeys } from '../../../../control-plane/platform/vault/open-keys.ts';
import { lockDataDirectory } from '../../../../proxy/boot/lock-data-directory.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { testConfig } from '../../../support/control-plane/services.ts';

let folder: string;
let whole: string;
let copies = 0;
const open = (dataDir: string) => openStore({ databaseUrl: undefined, dataDir, log: silentLog });
const settings = (dataDir: string) => testConfig({ SALLYPORT_DATA_DIR: dataDir });
beforeAll(async () => {
  folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-damaged-'));
  whole = join(folder, 'whole');
  const store = await open(whole);
  await openKeys(store.pool, settings(whole));
  await store.close();
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** Copies the data directory and damages the copy; returns the path. */
function damaged(damage: (dataDir: string) => void): string {
  copies += 1;
  const dataDir = join(folder, String(copies));
  fs.cpSync(whole, dataDir, { recursive: true });
  damage(dataDir);
  return dataDir;
}

async function refusal(opening: Promise<unknown>, name = 'StoreError'): Promise<string> {
  const error: unknown = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({ name });
  return (error as Error).message;
}

const postgres = (dataDir: string, ...names: readonly string[]) =>
  join(dataDir, 'postgres', ...names);
function replaceByFile(path: string): void {
  fs.rmSync(path, { recursive: true, force: true });
  fs.writeFileSync(path, 'text\n');
}
function replaceByFolder(path: string): void {
  fs.rmSync(path, { force: true });
  fs.mkdirSync(path);
}
function truncateAll(path: string, bytes: number): void {
  for (const entry of fs.readdirSync(path, { withFileTypes: true })) {
    if (entry.isFile()) fs.truncateSync(join(path, entry.name), bytes);
  }
}

describe('a damaged folder of the embedded database', () => {
  it.each<readonly [string, (dataDir: string) => void, RegExp]>([
    ['is a file', (dir) => replaceByFile(postgres(dir)), /it is a file, and a folder is expected/],
    [
      'has an empty PG_VERSION',
      (dir) => fs.truncateSync(postgres(dir, 'PG_VERSION')),
      /PG_VERSION does not hold a version/,
    ],
    [
      'has no PG_VERSION',
      (dir) => fs.rmSync(postgres(dir, 'PG_VERSION')),
      /has a database, but its file PG_VERSION is missing/,
    ],
    [
      'was created by another PostgreSQL version',
      (dir) => fs.writeFileSync(postgres(dir, 'PG_VERSION'), '15\n'),
      /made by PostgreSQL 15, and this version of Sallyport has PostgreSQL \d+\. Start the version/,
    ],
    [
      'has a truncated pg_control',
      (dir) => fs.truncateSync(postgres(dir, 'global', 'pg_control'), 100),
      /global\/pg_control is damaged/,
    ],
    [
      'has no pg_wal',
      (dir) => fs.rmSync(postgres(dir, 'pg_wal'), { recursive: true }),
      /its folder pg_wal is missing/,
    ],
    [
      'has a truncated write-ahead log',
      (dir) => truncateAll(postgres(dir, 'pg_wal'), 1_000),
      /files in it are damaged or missing \(the engine reported: /,
    ],
    [
      'has truncated tables',
      (dir) => truncateAll(postgres(dir, 'base', '5'), 100),
      /files in it are damaged or missing \(the engine reported: /,
    ],
  ])('is reported with an instruction if it %s', async (_what, damage, expected) => {
    const dataDir = damaged(damage);
    const hadVersion = fs.existsSync(postgres(dataDir, 'PG_VERSION'));
    const message = await refusal(open(dataDir));
    expect(message).toMatch(expected);
    expect(message).toContain(`database in ${postgres(dataDir)} cannot be opened`);
    expect(message).toMatch(/Restore the data directory|SALLYPORT_DATA_DIR/);
    expect(message).not.toContain('[object');
    // No new database was created in its place.
    expect(fs.existsSync(postgres(dataDir, 'PG_VERSION'))).toBe(hadVersion);
  });

  it('is distinguished from an intact folder and from a folder whose first start was interrupted', async () => {
    expect(fs.readFileSync(postgres(whole, 'PG_VERSION'), 'utf8').trim()).toBe(embeddedMajor);
    await (await open(damaged(() => {}))).close();
    const begun = damaged((dir) => {
      fs.rmSync(postgres(dir), { recursive: true });
      fs.mkdirSync(postgres(dir, 'global'), { recursive: true });
    });
    await (await open(begun)).close();
  });
});

describe('a damaged data directory', () => {
  it('is reported if it, or a folder above it, is a file', async () => {
    const file = join(folder, 'a-file');
    fs.writeFileSync(file, 'text\n');
    for (const dataDir of [file, join(file, 'below')]) {
      const message = await refusal(open(dataDir));
      expect(message).toMatch(/a file where a folder is expected.*set SALLYPORT_DATA_DIR/);
    }
  });

  it('is reported as damaged, not as in use, if its lock is a folder or malformed', async () => {
    const lock = (dir: string) => join(dir, 'postgres.lock');
    const junk = 'this is no lock'.repeat(500);
    for (const dataDir of [
      damaged((dir) => replaceByFolder(lock(dir))),
      damaged((dir) => fs.writeFileSync(lock(dir), junk)),
    ]) {
      const message = await refusal(open(dataDir));
      expect(message).toContain(`${lock(dataDir)}, cannot be used`);
      expect(message).not.toContain('in use by');
    }
  });

  it.each<readonly [string, (path: string) => void, RegExp]>([
    ['is empty', (path) => fs.truncateSync(path), /master\.key is empty/],
    ['is a folder', replaceByFolder, /master\.key is not a file/],
    ['is malformed', (path) => fs.writeFileSync(path, 'text\n'), /must be base64 of exactly 32/],
  ])('is reported if its master key %s', (_what, damage, expected) => {
    const dataDir = damaged((dir) => {
      damage(join(dir, 'master.key'));
      fs.chmodSync(join(dir, 'master.key'), 0o600);
    });
    expect(() => loadMasterKeys(settings(dataDir))).toThrow(expected);
  });

  it('is reported if its master key is missing, and no new key is created', async () => {
    const dataDir = damaged((dir) => fs.rmSync(join(dir, 'master.key')));
    const store = await open(dataDir);
    const message = await refusal(openKeys(store.pool, settings(dataDir)), 'SettingsError');
    await store.close();
    expect(message).toMatch(/master\.key is missing.*restore it from a backup/);
    expect(fs.existsSync(join(dataDir, 'master.key'))).toBe(false);
  });

  it.each<readonly [string, (path: string) => void, RegExp]>([
    ['is empty', (path) => fs.writeFileSync(path, ''), /does not hold an API key/],
    ['is a folder', replaceByFolder, /cannot be read/],
  ])('is reported if its bootstrap key %s', async (_what, damage, expected) => {
    const dataDir = damaged((dir) => damage(join(dir, 'bootstrap-key')));
    const starting = startEmbedded({ SALLYPORT_DATA_DIR: dataDir });
    const message = await refusal(starting, 'SettingsError');
    expect(message).toContain(join(dataDir, 'bootstrap-key'));
    expect(message).toMatch(expected);
    expect(message).toContain('Remove it, and the next start makes another');
  });

  it('is reported by the command-line programs in one line, without a stack trace', async () => {
    const file = join(folder, 'another-file');
    fs.writeFileSync(file, 'text\n');
    const root = join(import.meta.dirname, '../../../..');
    for (const program of [['cli/main.ts', 'up'], ['control-plane/main.ts'], ['proxy/main.ts']]) {
      const { status, stderr } = spawnSync(process.execPath, program, {
        cwd: root,
        env: { ...process.env, SALLYPORT_DATA_DIR: file, REDIS_URL: 'redis://127.0.0.1:1' },
        encoding: 'utf8',
      });
      const lines = stderr.split('\n').filter((line) => line.startsWith('sallyport:'));
      expect([status, ...lines]).toEqual([1, expect.stringContaining(file)]);
      expect(stderr).toContain('a file where a folder is expected');
      expect(stderr).not.toMatch(/\n {4}at /);
    }
    expect(() => lockDataDirectory(file)).toThrow(expect.objectContaining({ code: 'EEXIST' }));
  });
});
