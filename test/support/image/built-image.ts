import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { findProgram } from '../programs/programs.ts';

const run = promisify(execFile);
const repository = resolve(import.meta.dirname, '../../..');

/** An image of one architecture in an OCI layout. */
export interface BuiltImage {
  /** Digest of the index. */
  readonly digest: string;
  readonly architecture: string;
  readonly config: {
    readonly User: string;
    readonly Env: readonly string[];
    readonly Cmd: readonly string[];
    readonly StopSignal: string;
    readonly Labels: Readonly<Record<string, string>>;
  };
  /** The compressed layers. */
  readonly layers: readonly { readonly path: string; readonly bytes: number }[];
}

/** Builds the image for these architectures into a folder, with `npm run image`. */
export async function buildImage(
  folder: string,
  architectures: string,
): Promise<readonly BuiltImage[]> {
  await findProgram(['buildah']);
  await findProgram(['setcap'], 'libcap2-bin');
  await findProgram(['x86_64-linux-gnu-strip'], 'binutils-x86-64-linux-gnu');
  await findProgram(['aarch64-linux-gnu-strip'], 'binutils-aarch64-linux-gnu');
  const args = ['scripts/image/build.ts', '--arch', architectures, '--output', folder];
  await run(process.execPath, args, { cwd: repository, maxBuffer: 10_000_000 });
  return readImages(folder);
}

interface Descriptor {
  readonly digest: string;
  readonly size: number;
}

function readImages(layout: string): readonly BuiltImage[] {
  const pathOf = ({ digest }: Descriptor) => join(layout, 'blobs', digest.replace(':', '/'));
  const read = (of: Descriptor) => JSON.parse(fs.readFileSync(pathOf(of), 'utf8'));
  const [index] = JSON.parse(fs.readFileSync(join(layout, 'index.json'), 'utf8')).manifests;
  return read(index).manifests.map((descriptor: Descriptor) => {
    const manifest = read(descriptor);
    const { architecture, config } = read(manifest.config);
    const layers = manifest.layers.map((layer: Descriptor) => ({
      path: pathOf(layer),
      bytes: layer.size,
    }));
    return { digest: index.digest, architecture, config, layers };
  });
}

/** Unpacks the layers of an image as a container runtime does. Needs root. */
export async function unpackImage({ layers }: BuiltImage, folder: string): Promise<void> {
  fs.mkdirSync(folder, { recursive: true });
  fs.chmodSync(folder, 0o755);
  const options = ['--xattrs', '--xattrs-include=*', '--same-permissions', '--numeric-owner'];
  for (const { path } of layers) {
    await run('tar', ['--extract', '--gzip', '--file', path, '--directory', folder, ...options]);
  }
}
