import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from './cached.ts';

const run = promisify(execFile);

/** One release of Node, and the packages that a program on it may import. */
export interface NodeVersion {
  readonly name: string;
  readonly version: string;
  /** Releases of `undici` that support this Node. */
  readonly undici: readonly string[];
}

export const nodeVersions: readonly NodeVersion[] = [
  { name: 'Node 18', version: '18.20.8', undici: ['5.29.0', '6.29.1'] },
  { name: 'Node 20', version: '20.20.2', undici: ['6.29.1', '7.30.2'] },
  { name: 'Node 22', version: '22.23.3', undici: ['6.29.1', '7.30.2', '8.12.4'] },
  { name: 'Node 24', version: '24.21.0', undici: ['7.30.2', '8.12.4'] },
];

export interface InstalledNode {
  readonly node: string;
  /** A folder from which a program can import `axios`, `ws` and `undici-<version>`. */
  readonly packages: string;
}

/**
 * Installs a release of Node from npm, for this machine's architecture. Installs it only once:
 * later runs use the cached folder.
 */
export async function installNode({ version, undici }: NodeVersion): Promise<InstalledNode> {
  const platform = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const wanted = [
    `node-itself@npm:${platform}@${version}`,
    'axios@1.21.1',
    'ws@8.18.3',
    ...undici.map((release) => `undici-${release}@npm:undici@${release}`),
  ];
  const folder = await cachedFolder('node', wanted, async (draft) => {
    await mkdir(join(draft, 'node_modules'));
    const options = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--force'];
    await run('npm', ['install', ...options, '--prefix', draft, ...wanted], { cwd: draft });
  });
  return { node: join(folder, 'node_modules/node-itself/bin/node'), packages: folder };
}
