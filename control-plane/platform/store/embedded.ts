import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { describeFileError } from '../../../shared/base/file-error.ts';
import { lockFolder } from '../../../shared/disk/folder-lock.ts';
import { assertOpenable, engineProblem } from './inspect-folder.ts';
import { restrictToOwner } from './restrict-to-owner.ts';
import { StoreError } from './store-error.ts';

interface EmbeddedPostgres {
  /** Folder of the Unix socket. libpq and `pg` accept this folder as the host. */
  readonly host: string;
  close(): Promise<void>;
}

const socketName = '.s.PGSQL.5432';
// Maximum length of a socket path: `sun_path` holds 104 bytes on macOS and 108 on Linux, including
// the terminating zero byte.
const socketPathBytesMax = 103;

/**
 * Starts PostgreSQL inside this process on `<dataDir>/postgres`, reachable through a Unix socket.
 * Only this user can enter the socket's folder, because the socket server does not authenticate
 * clients.
 */
export async function startEmbedded(dataDir: string): Promise<EmbeddedPostgres> {
  const folder = resolve(dataDir);
  restrictToOwner(folder);
  const release = lockDataDirectory(folder);
  try {
    return await serve(folder, release);
  } catch (cause) {
    release();
    if (cause instanceof StoreError) throw cause;
    const found = describeFileError(cause) ?? String(cause);
    throw new StoreError(`The embedded database in ${folder} cannot be opened: ${found}`, {
      cause,
    });
  }
}

/** Locks the data directory. Returns a function that releases the lock. */
function lockDataDirectory(folder: string): () => void {
  const lock = lockFolder(folder, 'postgres');
  if (lock.status === 'locked') return lock.release;
  const { cause } = lock;
  if (lock.status === 'damaged') throw new StoreError(lock.problem, { cause });
  throw new StoreError(
    `The data directory ${folder} is in use by another Sallyport (process ${lock.holder}). ` +
      'Stop that one, or set SALLYPORT_DATA_DIR to another directory.',
    { cause },
  );
}

async function serve(folder: string, release: () => void): Promise<EmbeddedPostgres> {
  const database = await openDatabase(join(folder, 'postgres'));
  // Restricts the folder again, because PGlite sets its own modes on the files of a new database.
  restrictToOwner(folder);
  const host = socketFolder(folder);
  const path = join(host, socketName);
  // Removes the socket that a killed process left behind. The lock proves that no process listens
  // on it.
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

/**
 * Opens the database. Converts everything that PGlite throws to a `StoreError`, because PGlite may
 * throw values that are not errors.
 */
async function openDatabase(folder: string): Promise<PGlite> {
  assertOpenable(folder);
  try {
    return await PGlite.create(folder);
  } catch (cause) {
    throw engineProblem(folder, cause);
  }
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
