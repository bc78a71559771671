import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { enter } from '../network/namespaces.ts';
import { type Program, until } from '../programs/processes.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../../..');
const sidecarUid = 1337;

export interface PodSidecar {
  /** Its certificate bundle, which every user may read. */
  readonly caPath: string;
  output(): string;
  kill(): Promise<void>;
}

/**
 * Returns a command that runs a program as this user. Neither this program nor any program that it
 * executes has capabilities.
 */
export function asUser(uid: number): readonly string[] {
  const ids = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--no-new-privs'];
  return ['setpriv', ...ids, '--inh-caps=-all', '--bounding-set=-all'];
}

/** The path of Node in the folder of the code. */
export const node = 'node_modules/.bin/node';

/**
 * Returns a command that runs a program in the folder of Sallyport's code. A bind mount at `code`
 * makes the folder readable for every user, wherever it is.
 */
export function withCode(code: string, program: readonly string[], alsoMount = 'true') {
  const script = `mount --bind "${root}" "${code}" && ${alsoMount} && cd "${code}" && exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh', ...program];
}

/** What a sidecar of a pod is started with. */
export interface SidecarStart {
  /** The network namespace. */
  readonly namespace: string;
  readonly uid: number;
  /** Its data directory, which belongs to `uid`. */
  readonly dataDir: string;
  /** The file that it alone sees as `/etc/hosts`. */
  readonly hostsFile: string;
  readonly env: Readonly<Record<string, string>>;
}

export type StartSidecar = (start: SidecarStart) => Pick<Program, 'output' | 'kill' | 'exited'>;

/** Starts the sidecar from the sources, which are mounted at `code`. */
export function sidecarFromSources(code: string): StartSidecar {
  return ({ namespace, uid, dataDir, hostsFile, env }) => {
    const program = [...asUser(uid), node, 'proxy/start.ts'];
    const command = withCode(code, program, `mount --bind "${hostsFile}" /etc/hosts`);
    const child = spawn('nsenter', [...enter(namespace), ...command], {
      env: { PATH: process.env.PATH ?? '', SALLYPORT_DATA_DIR: dataDir, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    const exited = once(child, 'exit').then(([code]) => code as number | null);
    const kill = async () => {
      child.kill('SIGKILL');
      await exited;
    };
    return { output: () => output, kill, exited: () => exited };
  };
}

/**
 * Starts the sidecar in a network namespace as its own user, which alone knows the addresses of
 * `hosts`, by name. Resolves when it is ready.
 */
export async function startPodSidecar({
  namespace,
  folder,
  hosts,
  env,
  start,
}: {
  readonly namespace: string;
  readonly folder: string;
  readonly hosts: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly start: StartSidecar;
}): Promise<PodSidecar> {
  const [dataDir, hostsFile] = [join(folder, 'sidecar'), join(folder, 'hosts')];
  fs.mkdirSync(dataDir, { mode: 0o755 });
  fs.chownSync(dataDir, sidecarUid, sidecarUid);
  const names = Object.entries(hosts).map(([name, address]) => `${address} ${name}\n`);
  fs.writeFileSync(hostsFile, `127.0.0.1 localhost\n::1 localhost\n${names.join('')}`);
  const { output, kill, exited } = start({ namespace, uid: sidecarUid, dataDir, hostsFile, env });
  let isEnded = false;
  void exited().then(() => {
    isEnded = true;
  });
  const isReady = async () => {
    if (isEnded) throw new Error('it ended');
    const curl = ['curl', '-sf', 'http://127.0.0.1:8182/readyz'];
    return run('nsenter', [...enter(namespace), ...curl]).then(
      () => true,
      () => false,
    );
  };
  await until('the sidecar is ready', isReady).catch(async (cause) => {
    await kill();
    throw new Error(`the sidecar is not ready:\n${output().slice(-4_000)}`, { cause });
  });
  return { caPath: join(dataDir, 'ca.crt'), output, kill };
}
