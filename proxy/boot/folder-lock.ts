import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';

/**
 * Locks a folder for this process; resolves with a function that releases it. The lock is a socket's
 * name, which the system releases with the process, however that ends.
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = lockPath(fs.realpathSync(folder));
  const server = (await listenAt(path)) ?? (await listenAgain(path));
  if (server === undefined) {
    throw new SettingsError(
      `Another sidecar runs on ${folder}: give each its own SALLYPORT_DATA_DIR.`,
    );
  }
  server.unref();
  return () => new Promise((resolve) => server.close(() => resolve()));
}

/** Linux has socket names that need no file and cannot be left behind. */
function lockPath(folder: string): string {
  const name = `sallyport-${createHash('sha256').update(folder).digest('hex').slice(0, 40)}`;
  return process.platform === 'linux' ? `\0${name}` : join(tmpdir(), `${name}.sock`);
}

/** Undefined when the name is taken. */
async function listenAt(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.listen({ path });
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return undefined;
  }
}

/** A socket's file outlives its process: if no process answers, it is taken over. */
async function listenAgain(path: string): Promise<Server | undefined> {
  if (path.startsWith('\0') || (await isAnswered(path))) return undefined;
  fs.rmSync(path, { force: true });
  return listenAt(path);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const answer = (isThere: boolean) => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', () => answer(true)).once('error', () => answer(false));
  });
}
