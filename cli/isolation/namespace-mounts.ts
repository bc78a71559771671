import fs from 'node:fs';
import { join } from 'node:path';
import { IsolationError } from './isolation-error.ts';
import { makeReadOnly, mount, mountFlags } from './kernel.ts';
import type { IsolationPlan } from './plan.ts';

const { bind, noDev, noExec, noSuid, readOnly, remount } = mountFlags;
const inert = noSuid | noDev | noExec;
const resolverFile = '/etc/resolv.conf';

/**
 * Covers files that would give the command access to programs and secrets outside. The command has
 * no capability, so it cannot remove these mounts; in a user namespace of its own they are locked
 * (mount_namespaces(7)).
 */
export function coverMounts({ hiddenFolders, hiddenSockets }: IsolationPlan): void {
  // Read before its folder may be covered.
  const resolver = resolverOf();
  mountProc();
  for (const folder of hiddenFolders) cover(folder, resolver);
  for (const path of hiddenSockets) {
    // The service may have ended meanwhile.
    if (!fs.existsSync(path)) continue;
    mount({ source: '/dev/null', target: path, type: '', flags: bind });
  }
  // Otherwise the command could signal other processes by their cgroup (`cgroup.kill`).
  if (!makeReadOnly('/sys') && fs.existsSync('/sys/fs/cgroup')) cover('/sys/fs/cgroup', undefined);
  ownTerminals();
}

function mountProc(): void {
  try {
    mount({ source: 'proc', target: '/proc', type: 'proc', flags: inert });
  } catch (cause) {
    throw new IsolationError('run.isolation_proc_forbidden', undefined, { cause });
  }
}

interface Resolver {
  readonly path: string;
  readonly text: string;
}

function resolverOf(): Resolver | undefined {
  try {
    return { path: fs.realpathSync(resolverFile), text: fs.readFileSync(resolverFile, 'utf8') };
  } catch {
    return undefined;
  }
}

/** Mounts an empty folder; only symbolic links and the resolver's file are kept. */
function cover(folder: string, resolver: Resolver | undefined): void {
  const links = linksIn(folder);
  const isShared = folder === '/dev/shm';
  const data = isShared ? 'mode=1777' : 'mode=0755,size=1m';
  const tmpfs = { source: 'sallyport', target: folder, type: 'tmpfs' };
  mount({ ...tmpfs, flags: noSuid | noDev, data });
  for (const [name, target] of links) fs.symlinkSync(target, join(folder, name));
  if (resolver?.path.startsWith(`${folder}/`) === true) {
    fs.mkdirSync(join(resolver.path, '..'), { recursive: true });
    fs.writeFileSync(resolver.path, resolver.text);
  }
  if (!isShared) mount({ ...tmpfs, flags: inert | readOnly | remount, data });
}

/** Links such as /run/current-system, through which some systems find their programs. */
function linksIn(folder: string): [string, string][] {
  if (folder !== '/run') return [];
  return fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isSymbolicLink())
    .map(({ name }) => [name, fs.readlinkSync(join(folder, name))]);
}

/**
 * Mounts terminals for the namespace only. Through the user's other terminals, the command could
 * read input and forge output.
 */
function ownTerminals(): void {
  const data = 'newinstance,ptmxmode=0666,mode=0620';
  mount({ source: 'devpts', target: '/dev/pts', type: 'devpts', flags: noSuid | noExec, data });
  if (fs.lstatSync('/dev/ptmx').isSymbolicLink()) return;
  mount({ source: '/dev/pts/ptmx', target: '/dev/ptmx', type: '', flags: bind });
}
