import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { ownFolder } from './own-folder.ts';
import { StoreError } from './store-error.ts';

interface EmbeddedPostgres {
  /** Folder of its Unix socket, as libpq and `pg` take it for a host. */
  readonly host: string;
  close(): Promise<void>;
}

const socketName = '.s.PGSQL.5432';
// sun_path holds 104 bytes on macOS and 108 on Linux, the closing zero included.
const socketPathBytesMax = 103;

/**
 * Starts Postgres inside this process on `<dataDir>/postgres`, reachable through a Unix socket in
 * a folder that only this user may enter: the socket server asks nobody who they are.
 */
export async function startEmbedded(dataDir: string): Promise<EmbeddedPostgres> {
  const folder = resolve(dataDir);
  ownFolder(folder);
  const lock = lockFolder(folder);
  try {
    return await serve(folder, lock.release);
  } catch (cause) {
    lock.release();
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`The embedded database in ${folder} cannot be opened: ${String(cause)}`, {
      cause,
    });
  }
}

async function serve(folder: string, release: () => void): Promise<EmbeddedPostgres> {
  const database = await PGlite.create(join(folder, 'postgres'));
  // PGlite sets modes of its own on the files that a new database begins with.
  ownFolder(folder);
  const host = socketFolder(folder);
  const path = join(host, socketName);
  // What a killed predecessor left; the lock says that nobody listens there.
  rmSync(path, { force: true });
  const server = new PGLiteSocketServer({ db: database, path, maxConnections: 4 });
  await server.start();
  return {
    host,
    async close() {
      await server.stop();
      await database.close();
      if (!host.startsWith(folder)) rmSync(host, { recursive: true, force: true });
      release();
    },
  };
}

function socketFolder(folder: string): string {
  const inside = join(folder, 'run');
  if (Buffer.byteLength(join(inside, socketName)) > socketPathBytesMax) {
    return mkdtempSync(join(tmpdir(), 'sallyport-'));
  }
  mkdirSync(inside, { recursive: true, mode: 0o700 });
  chmodSync(inside, 0o700);
  return inside;
}

interface FolderLock {
  release(): void;
}

/**
 * Takes the data directory for this process alone, or throws a `StoreError` that names who has
 * it. The lock is one of the operating system, reached through SQLite: it ends with its process,
 * however that ends, so there is no stale lock to judge, and no process id that another program
 * has come to bear. `postgres.pid` beside it is for the error message.
 */
function lockFolder(dataDir: string): FolderLock {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const pidFile = join(dataDir, 'postgres.pid');
  const database = new DatabaseSync(join(dataDir, 'postgres.lock'));
  try {
    database.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (cause) {
    database.close();
    throw new StoreError(
      `The data directory ${dataDir} is in use by another Sallyport (process ${holder(pidFile)}). ` +
        'Stop that one, or set SALLYPORT_DATA_DIR to another directory.',
      { cause },
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return { release: () => database.close() };
}

function holder(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
