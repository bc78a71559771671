// Builds the container image into an OCI layout, without a container registry.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { commitImage } from './commit.ts';
import { type Architecture, hostArchitecture, hostSources } from './debian.ts';
import { Failure } from './failure.ts';
import { makeRoot, stripTools } from './root.ts';

const repository = join(import.meta.dirname, '../..');
const architectures: readonly Architecture[] = ['amd64', 'arm64'];
const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
  readonly version: string;
};

const usage = `npm run image -- [--arch amd64,arm64] [--output FOLDER] [--sources FILE] [--root FOLDER]

  --arch     architectures of the image, default: this machine's
  --output   folder of the OCI layout, default: dist/image
  --sources  apt sources file of Debian bookworm, such as a snapshot's; default: this machine's
  --root     write only the root file system of one architecture, into this folder`;

/** The programs that the build needs, and the Debian packages that contain them. */
const tools = {
  'apt-get': 'apt',
  'dpkg-deb': 'dpkg',
  tar: 'tar',
  setcap: 'libcap2-bin',
} as const;
const imageTools = { buildah: 'buildah' } as const;
const binutils = {
  amd64: 'binutils-x86-64-linux-gnu',
  arm64: 'binutils-aarch64-linux-gnu',
} as const;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: hostArchitecture() },
      output: { type: 'string', default: join(repository, 'dist/image') },
      sources: { type: 'string' },
      root: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return console.log(usage);
  const chosen = architecturesOf(values.arch);
  const sources = resolve(values.sources ?? hostSources());
  assertTools({
    ...tools,
    ...(values.root === undefined ? imageTools : {}),
    ...Object.fromEntries(chosen.map((one) => [stripTools[one], binutils[one]])),
  });
  const cache = join(repository, 'node_modules/.cache/sallyport-image');
  mkdirSync(cache, { recursive: true });
  const options = { sources, cache, version };
  if (values.root !== undefined) {
    const [architecture, ...others] = chosen;
    if (architecture === undefined || others.length > 0)
      throw new Failure('--root needs one architecture.');
    mkdirSync(values.root, { recursive: true });
    await makeRoot(resolve(values.root), { ...options, architecture });
    return;
  }
  await buildImage(chosen, resolve(values.output), options);
}

interface BuildOptions {
  readonly sources: string;
  readonly cache: string;
  readonly version: string;
}

async function buildImage(
  chosen: readonly Architecture[],
  output: string,
  options: BuildOptions,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-image-'));
  try {
    const roots = new Map<Architecture, string>();
    for (const architecture of chosen) {
      const root = join(folder, architecture);
      await makeRoot(root, { ...options, architecture });
      roots.set(architecture, root);
    }
    rmSync(output, { recursive: true, force: true });
    mkdirSync(dirname(output), { recursive: true });
    const committed = { version, revision: revision(), storage: join(folder, 'storage') };
    const digest = commitImage(roots, output, committed);
    console.log(`oci:${relative('', output)}:${version}  ${chosen.join(', ')}  ${digest}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The commit of the sources; undefined if they are not a clone or were changed. */
function revision(): string | undefined {
  const git = (...args: readonly string[]) =>
    spawnSync('git', args, { cwd: repository, encoding: 'utf8' });
  const changes = git('status', '--porcelain');
  if (changes.status !== 0 || changes.stdout !== '') return undefined;
  return git('rev-parse', 'HEAD').stdout.trim();
}

function architecturesOf(text: string): readonly Architecture[] {
  return text.split(',').map((name) => {
    const found = architectures.find((one) => one === name);
    if (found !== undefined) return found;
    throw new Failure(`--arch ${name}: the image is built for ${architectures.join(' and ')}.`);
  });
}

function assertTools(needed: Readonly<Record<string, string>>): void {
  if (process.getuid?.() !== 0) {
    throw new Failure('Run this as root: files of the image get owners and capabilities.');
  }
  const missing = Object.entries(needed).filter(
    ([name]) => spawnSync(name, ['--version']).error !== undefined,
  );
  if (missing.length === 0) return;
  const packages = missing.map(([, name]) => name).join(' ');
  throw new Failure(
    `${missing.map(([name]) => name).join(', ')} not found. On Debian: apt-get install ${packages}`,
  );
}

await main().catch((error: Error) => {
  if (!(error instanceof Failure)) throw error;
  console.error(`image: ${error.message}`);
  process.exitCode = 1;
});
