import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Program } from '../programs/processes.ts';
import type { BuiltImage } from './built-image.ts';

export interface ContainerOptions {
  readonly image: BuiltImage;
  /** The unpacked image; the container cannot change it. */
  readonly root: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the image's user. */
  readonly uid?: number;
  /** Capabilities that a deployment adds; all others are dropped. */
  readonly capabilities?: readonly string[];
  /** Folders and files of this machine: path in the container → path here. */
  readonly volumes?: Readonly<Record<string, string>>;
  /** The path of a network namespace, or `own` for a new one; default: this machine's. */
  readonly network?: string;
}

/**
 * Starts a container with runc as Kubernetes does under the "restricted" profile: read-only root,
 * no capabilities but those named, no new privileges.
 */
export function startContainer(options: ContainerOptions): Program {
  const name = `sallyport-test-${randomBytes(6).toString('hex')}`;
  const folder = fs.mkdtempSync(join(tmpdir(), 'container-'));
  fs.writeFileSync(join(folder, 'config.json'), JSON.stringify(specOf(options)));
  const state = join(folder, 'state');
  const child = spawn('runc', ['--root', state, 'run', '--bundle', folder, name], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  const keep = (chunk: Buffer) => {
    text += chunk.toString();
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const exit = once(child, 'close').then(([code]) => {
    fs.rmSync(folder, { recursive: true, force: true });
    return code as number | null;
  });
  const signal = (which: string) => execFileSync('runc', ['--root', state, 'kill', name, which]);
  const isEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? 0,
    output: () => text,
    async stop() {
      signal('TERM');
      return exit;
    },
    async kill() {
      if (!isEnded()) signal('KILL');
      await exit;
    },
    exited: () => exit,
  };
}

function specOf(options: ContainerOptions): object {
  const { image, root, args, env = {}, volumes = {}, capabilities = [], network } = options;
  const uid = options.uid ?? Number(image.config.User.split(':')[0]);
  const namespaces: object[] = ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type }));
  if (network === 'own') namespaces.push({ type: 'network' });
  else if (network !== undefined) namespaces.push({ type: 'network', path: network });
  // Runtimes provide the host's names as well.
  const binds = { '/etc/hosts': '/etc/hosts', '/etc/resolv.conf': '/etc/resolv.conf', ...volumes };
  const mounts = Object.entries(binds).map(([destination, source]) => ({
    destination,
    source,
    type: 'bind',
    options: ['rbind', 'rprivate', 'rw'],
  }));
  return {
    ociVersion: '1.0.2',
    process: {
      user: { uid, gid: uid },
      args,
      env: [...image.config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
      cwd: '/',
      // The capabilities are neither inheritable nor ambient, as under containerd.
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      noNewPrivileges: true,
    },
    root: { path: root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
      ...mounts,
    ],
    linux: { namespaces },
  };
}
