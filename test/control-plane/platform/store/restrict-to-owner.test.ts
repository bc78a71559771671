import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { openStore } from '../../../../control-plane/platform/store/open.ts';
import { restrictToOwner } from '../../../../control-plane/platform/store/restrict-to-owner.ts';
import { silentLog } from '../../../../shared/base/log.ts';

let folder: string;
const dataDir = () => {
  folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-modes-'));
  const path = join(folder, 'data');
  fs.mkdirSync(path);
  return path;
};
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

/** Lists all files and folders in a folder that users other than the owner can read, write or enter. */
function openTo(path: string): readonly string[] {
  const names = fs.readdirSync(path, { recursive: true, encoding: 'utf8' });
  return ['.', ...names].filter((name) => (fs.lstatSync(join(path, name)).mode & 0o077) !== 0);
}

/** Gives all files and folders mode 0777, as `mkdir -m 777` and `cp` can do. */
function openUp(path: string): void {
  for (const name of fs.readdirSync(path, { recursive: true, encoding: 'utf8' })) {
    fs.chmodSync(join(path, name), 0o777);
  }
  fs.chmodSync(path, 0o777);
}

describe('a data directory that existed with mode 0777', () => {
  it('holds an embedded database that only its owner can read or write', async () => {
    const path = dataDir();
    openUp(path);
    const umask = process.umask(0);
    try {
      const options = { databaseUrl: undefined, dataDir: path, log: silentLog };
      const first = await openStore(options);
      expect(openTo(path)).toEqual([]);
      await first.close();
      openUp(path);
      process.umask(0);
      const second = await openStore(options);
      await second.pool.query('create table made_later as select * from generate_series(1, 10)');
      await second.pool.query('checkpoint');
      expect(openTo(path)).toEqual([]);
      await second.close();
      expect(openTo(path)).toEqual([]);
    } finally {
      process.umask(umask);
    }
  });

  it('is refused if it contains a symbolic link, and the error names the link', () => {
    const path = dataDir();
    fs.symlinkSync('/etc/hosts', join(path, 'linked'));
    expect(() => restrictToOwner(path)).toThrow(/symbolic link .*\/linked\. Remove it/);
  });

  it('is refused if a file in it belongs to another user, and the error names this user', () => {
    const path = dataDir();
    const { uid } = fs.statSync(path);
    // The process pretends to run as another user, because only root could change the owner of a file.
    vi.spyOn(process, 'getuid').mockReturnValue(uid + 1);
    try {
      const message = new RegExp(`belongs to user ${uid}, .* runs as user ${uid + 1}.*chown`);
      expect(() => restrictToOwner(path)).toThrow(message);
    } finally {
      vi.restoreAllMocks();
    }
  });

  it('can itself be reached through a symbolic link', () => {
    const path = dataDir();
    fs.writeFileSync(join(path, 'file'), '', { mode: 0o666 });
    fs.symlinkSync(path, join(folder, 'link'));
    restrictToOwner(join(folder, 'link'));
    expect(openTo(path)).toEqual([]);
  });
});
