import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { bundle, compile } from '../bundle/bundle.ts';
import { programs } from '../bundle/programs.ts';
import { dataDirectory } from './commit.ts';
import { type Architecture, downloadPackages, hostArchitecture, unpack } from './debian.ts';
import { addNativePackages } from './native-packages.ts';
import { type NodeBinary, nodeBinary } from './node-binary.ts';
import { billOfMaterials } from './sbom.ts';

const repository = join(import.meta.dirname, '../..');
/** The bundle's folder in the image. */
const installed = '/opt/sallyport';

interface RootOptions {
  readonly architecture: Architecture;
  /** An apt sources file. */
  readonly sources: string;
  /** Kept between builds: package lists and Node. */
  readonly cache: string;
  readonly version: string;
}

/** Writes the image's root file system into an empty folder. */
export async function makeRoot(root: string, options: RootOptions): Promise<void> {
  const { architecture, sources, cache, version } = options;
  const downloads = mkdtempSync(join(cache, 'debian-'));
  const lists = join(cache, `apt-${architecture}`);
  for (const name of ['bin', 'lib', 'sbin']) {
    mkdirSync(join(root, 'usr', name), { recursive: true });
    symlinkSync(`usr/${name}`, join(root, name));
  }
  mkdirSync(join(root, 'usr/lib64'));
  symlinkSync('usr/lib64', join(root, 'lib64'));
  const debian = downloadPackages({ architecture, sources, lists, into: downloads });
  for (const one of debian) unpack(one, root);
  rmSync(downloads, { recursive: true });
  trustRoots(root);
  keepCopyrights(root);
  addUsers(root);
  const node = nodeBinary(architecture, cache);
  addNode(root, node, architecture);
  const programsFolder = join(root, installed);
  const nativeModules = mkdtempSync(join(cache, 'native-'));
  addNativePackages(join(nativeModules, 'node_modules'), { architecture, cache });
  const npm = await bundle(programsFolder, { architecture, nativeFrom: nativeModules });
  rmSync(nativeModules, { recursive: true });
  // Node for another architecture does not run here, so that image's programs start without
  // compiled code.
  if (architecture === hostArchitecture()) {
    compile({ root, folder: installed, node: '/usr/local/bin/node' });
  }
  addCommands(root);
  copyFileSync(join(repository, 'LICENSE'), join(programsFolder, 'LICENSE'));
  mkdirSync(join(root, 'usr/share/sbom'), { recursive: true });
  const contents = { version, architecture, nodeVersion: node.version, npm, debian };
  writeFileSync(
    join(root, 'usr/share/sbom/sallyport.cdx.json'),
    `${JSON.stringify(billOfMaterials(contents), undefined, 2)}\n`,
  );
  setModes(root);
  rmSync(node.folder, { recursive: true });
}

/** Writes one file with all trusted root certificates, as `update-ca-certificates` would. */
function trustRoots(root: string): void {
  const shipped = join(root, 'usr/share/ca-certificates');
  const files = readdirSync(join(shipped, 'mozilla')).sort();
  const text = files.map((file) => readFileSync(join(shipped, 'mozilla', file), 'utf8').trim());
  rmSync(shipped, { recursive: true });
  mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true });
  writeFileSync(join(root, 'etc/ssl/certs/ca-certificates.crt'), `${text.join('\n')}\n`);
}

/** Removes the documentation except the licenses. */
function keepCopyrights(root: string): void {
  const docs = join(root, 'usr/share/doc');
  for (const path of readdirSync(docs, { recursive: true, encoding: 'utf8' })) {
    const file = join(docs, path);
    // A package's folder may be a link to another package's.
    const isFile = lstatSync(file, { throwIfNoEntry: false })?.isFile() === true;
    if (isFile && !path.endsWith('/copyright')) rmSync(file);
  }
}

/** From the Debian packages `binutils` and `binutils-aarch64-linux-gnu`. */
export const stripTools: Readonly<Record<Architecture, string>> = {
  amd64: 'x86_64-linux-gnu-strip',
  arm64: 'aarch64-linux-gnu-strip',
};

const users = [
  ['root', 0],
  ['sidecar', 1337],
  ['sallyport', 65532],
] as const;

function addUsers(root: string): void {
  const etc = (name: string, lines: readonly string[]) =>
    writeFileSync(join(root, 'etc', name), `${lines.join('\n')}\n`);
  etc(
    'passwd',
    users.map(([name, id]) => `${name}:x:${id}:${id}::/nonexistent:/usr/sbin/nologin`),
  );
  etc(
    'group',
    users.map(([name, id]) => `${name}:x:${id}:`),
  );
  etc('nsswitch.conf', ['passwd: files', 'group: files', 'hosts: files dns']);
}

/** Adds Node without its symbols and debug information, which take 18 MB. */
function addNode(root: string, node: NodeBinary, architecture: Architecture): void {
  const license = join(root, 'usr/share/doc/node');
  mkdirSync(join(root, 'usr/local/bin'), { recursive: true });
  mkdirSync(license, { recursive: true });
  execFileSync(stripTools[architecture], ['-o', join(root, 'usr/local/bin/node'), node.binary]);
  copyFileSync(node.license, join(license, 'copyright'));
}

/** Adds the commands to the PATH. The kernel starts them with Node, because there is no shell. */
function addCommands(root: string): void {
  for (const { name, nodeFlag } of programs) {
    const interpreter = ['/usr/local/bin/node', nodeFlag ?? []].flat().join(' ');
    const path = join(root, 'usr/local/bin', name);
    writeFileSync(path, `#!${interpreter}\nrequire('${installed}/${name}.cjs');\n`);
    chmodSync(path, 0o755);
  }
}

/** Sets modes and capabilities, whatever the umask and the packages say. All files belong to root. */
function setModes(root: string): void {
  const run = (file: string, ...args: readonly string[]) => execFileSync(file, args, { cwd: root });
  // Without a volume, any user can write to these folders, unless the deployment makes them
  // read-only.
  for (const path of ['tmp', dataDirectory]) {
    mkdirSync(join(root, path), { recursive: true });
    chmodSync(join(root, path), 0o1777);
  }
  run('chmod', '--recursive', 'u=rwX,go=rX', 'etc', 'opt', 'usr', 'var/lib/dpkg');
  run('chown', '--recursive', '--no-dereference', '0:0', '.');
  // An init container that is not root gets NET_ADMIN only through file capabilities
  // (docs/decisions/0247).
  run('setcap', 'cap_net_admin=p', 'usr/local/bin/node');
  run('setcap', 'cap_net_admin=ep', 'usr/sbin/nft');
}
