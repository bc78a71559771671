import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { enter } from '../network/namespaces.ts';
import { until } from '../programs/processes.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../../..');
const sidecarUid = 1337;

export interface PodSidecar {
  /** Its certificate bundle, which every user may read. */
  readonly caPath: string;
  output(): string;
  kill(): Promise<void>;
}

/** The command line that runs a program as this user without capabilities, now and after exec. */
export function asUser(uid: number): readonly string[] {
  const ids = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--no-new-privs'];
  return ['setpriv', ...ids, '--inh-caps=-all', '--bounding-set=-all'];
}

/** Node, by its path in the folder of the code. */
export const node = 'node_modules/.bin/node';

/**
 * The command line that runs a program in the folder of Sallyport's code. A bind mount at `code`
 * makes it readable for every user, wherever it lies.
 */
export function withCode(code: string, program: readonly string[], alsoMount = 'true') {
  const script = `mount --bind "${root}" "${code}" && ${alsoMount} && cd "${code}" && exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh', ...program];
}

/**
 * Starts the sidecar in a network namespace as its own user. A mount namespace gives it alone the
 * addresses of `hosts`, by name.
 */
export async function startPodSidecar({
  namespace,
  folder,
  code,
  hosts,
  env,
}: {
  readonly namespace: string;
  readonly folder: string;
  /** A folder at which the code is mounted. */
  readonly code: string;
  readonly hosts: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
}): Promise<PodSidecar> {
  const [dataDir, hostsFile] = [join(folder, 'sidecar'), join(folder, 'hosts')];
  fs.mkdirSync(dataDir, { mode: 0o755 });
  fs.chownSync(dataDir, sidecarUid, sidecarUid);
  const names = Object.entries(hosts).map(([name, address]) => `${address} ${name}\n`);
  fs.writeFileSync(hostsFile, `127.0.0.1 localhost\n::1 localhost\n${names.join('')}`);
  const program = [...asUser(sidecarUid), node, 'proxy/start.ts'];
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
  const exited = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error('it ended');
    const curl = ['curl', '-sf', 'http://127.0.0.1:8182/readyz'];
    return run('nsenter', [...enter(namespace), ...curl]).then(
      () => true,
      () => false,
    );
  };
  await until('the sidecar is ready', isReady).catch(async (cause) => {
    await kill();
    throw new Error(`the sidecar is not ready:\n${output.slice(-4_000)}`, { cause });
  });
  return { caPath: join(dataDir, 'ca.crt'), output: () => output, kill };
}
