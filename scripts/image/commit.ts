import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture } from './debian.ts';

/** The user that the image's programs run as, unless a deployment names another. */
const defaultUser = 65532;
export const dataDirectory = '/var/lib/sallyport';

/** Configuration of the image; the Containerfile repeats it. */
const settings = [
  ['--user', `${defaultUser}:${defaultUser}`],
  ['--stop-signal', 'SIGTERM'],
  ['--cmd', '["control-plane"]'],
  ['--workingdir', '/'],
  ['--env', 'PATH=/usr/local/bin:/usr/sbin'],
  ['--env', `SALLYPORT_DATA_DIR=${dataDirectory}`],
  ['--os', 'linux'],
] as const;

interface Options {
  readonly version: string;
  /** The commit of the sources, if they are a clone. */
  readonly revision: string | undefined;
  /** A folder for buildah's own files, which is removed afterwards. */
  readonly storage: string;
}

/** Images of root file systems, joined in one index and written to an OCI layout. */
export function commitImage(
  roots: ReadonlyMap<Architecture, string>,
  output: string,
  { version, revision, storage }: Options,
): string {
  const buildah = (...args: readonly string[]) =>
    execFileSync('buildah', [...storageFlags(storage), ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    }).trim();
  const labels = Object.entries({
    title: 'sallyport',
    description:
      'Agent action authorization gateway: control plane, sidecar, injector and command line',
    version,
    licenses: 'Apache-2.0',
    ...(revision === undefined ? {} : { revision }),
  }).flatMap(([name, value]) => ['--label', `org.opencontainers.image.${name}=${value}`]);
  buildah('manifest', 'create', 'index');
  for (const [architecture, root] of roots) {
    const container = buildah('from', '--arch', architecture, 'scratch');
    buildah('copy', '--quiet', container, root, '/');
    buildah('config', ...settings.flat(), '--arch', architecture, ...labels, container);
    // The same time for everything, so that equal contents have equal digests.
    const image = buildah(
      'commit',
      '--quiet',
      '--rm',
      '--format',
      'oci',
      '--timestamp',
      '0',
      container,
    );
    buildah('manifest', 'add', 'index', image);
  }
  buildah(
    'manifest',
    'push',
    '--quiet',
    '--all',
    '--format',
    'oci',
    'index',
    `oci:${output}:${version}`,
  );
  const index = JSON.parse(readFileSync(join(output, 'index.json'), 'utf8'));
  return String(index.manifests[0].digest);
}

function storageFlags(folder: string): string[] {
  const [root, runRoot] = [join(folder, 'root'), join(folder, 'run')];
  return ['--root', root, '--runroot', runRoot, '--storage-driver', 'vfs'];
}
