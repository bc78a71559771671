import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { Failure } from './failure.ts';

/** Debian's name of a processor architecture. */
export type Architecture = 'amd64' | 'arm64';

export function hostArchitecture(): Architecture {
  return process.arch === 'arm64' ? 'arm64' : 'amd64';
}

/** The Debian release that the image uses. The package names below belong to it. */
export const release = 'bookworm';

/** Node and nft, the libraries that they load, and files that these read. */
const packageNames: readonly string[] = [
  'base-files',
  'ca-certificates',
  // The license of libgcc and libstdc++.
  'gcc-12-base',
  'libc6',
  'libgcc-s1',
  'libstdc++6',
  'netbase',
  'nftables',
  // Libraries of nft.
  'libbsd0',
  'libedit2',
  'libgmp10',
  'libjansson4',
  'libmd0',
  'libmnl0',
  'libnftables1',
  'libnftnl11',
  'libtinfo6',
  'libxtables12',
];

/** Parts of the packages that no program of the image reads. */
const leftOut: readonly string[] = [
  './boot',
  './etc/ca-certificates*',
  './etc/init.d*',
  './etc/ld.so.conf.d*',
  './etc/nftables.conf',
  './etc/profile.d*',
  './etc/skel',
  './etc/update-motd.d*',
  './home',
  './lib/systemd*',
  './lib/*/libmemusage*',
  './lib/*/libpcprofile*',
  './media',
  './mnt',
  './root',
  './srv',
  './usr/bin*',
  './usr/games',
  './usr/include',
  './usr/lib/*/audit*',
  './usr/lib/*/gconv*',
  './usr/sbin/update-ca-certificates',
  './usr/share/base-files*',
  './usr/share/dict',
  './usr/share/bug*',
  './usr/share/gdb*',
  './usr/share/info*',
  './usr/share/lintian*',
  './usr/share/man*',
  './usr/share/misc',
  './usr/src',
  './var/*',
];

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly sha256: string;
  /** The `.deb` file. */
  readonly path: string;
  /** The control file, as dpkg records it. */
  readonly control: string;
}

interface DownloadOptions {
  readonly architecture: Architecture;
  /** An apt sources file: this machine's, or a snapshot's. */
  readonly sources: string;
  /** A folder for apt's package lists, kept between builds. */
  readonly lists: string;
  /** The folder for the packages. */
  readonly into: string;
}

/** Downloads the packages with apt, which verifies Debian's signatures. Needs no root. */
export function downloadPackages(options: DownloadOptions): readonly DebianPackage[] {
  const { into } = options;
  const settings = aptSettings(options);
  // Builds may run at the same time, and apt does not wait for its own lock.
  const lock = join(options.lists, 'lock');
  const apt = (...args: readonly string[]) =>
    execFileSync('flock', [lock, 'apt-get', ...settings, '--quiet=2', ...args], {
      cwd: into,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  apt('update');
  apt('download', ...packageNames);
  const files = readdirSync(into).sort();
  if (files.length !== packageNames.length) {
    throw new Failure(
      `apt downloaded ${files.length} of ${packageNames.length} packages: ${files.join(', ')}`,
    );
  }
  return files.map((file) => describePackage(join(into, file)));
}

/** Settings that make apt read and write only our folder, apart from keys and proxies. */
function aptSettings({ architecture, sources, lists }: DownloadOptions): string[] {
  mkdirSync(join(lists, 'lists/partial'), { recursive: true });
  mkdirSync(join(lists, 'cache/archives/partial'), { recursive: true });
  writeFileSync(join(lists, 'status'), '');
  const settings = {
    'APT::Architecture': architecture,
    'APT::Architectures': architecture,
    'APT::Sandbox::User': userInfo().username,
    'APT::Update::Error-Mode': 'any',
    'Dir::Cache': join(lists, 'cache'),
    'Dir::Etc::SourceList': sources,
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::State': lists,
    'Dir::State::Status': join(lists, 'status'),
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

function describePackage(path: string): DebianPackage {
  const control = execFileSync('dpkg-deb', ['--field', path], { encoding: 'utf8' });
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(control)?.[1] ?? '';
  return {
    name: field('Package'),
    version: field('Version'),
    architecture: field('Architecture'),
    sha256: createHash('sha256').update(readFileSync(path)).digest('hex'),
    path,
    control,
  };
}

/** Unpacks the files of a package that the image needs, and records the package as dpkg would. */
export function unpack({ name, path, control }: DebianPackage, root: string): void {
  const archive = execFileSync('dpkg-deb', ['--fsys-tarfile', path], { maxBuffer: 1024 ** 3 });
  const excluded = leftOut.map((pattern) => `--exclude=${pattern}`);
  const options = ['--extract', '--directory', root, '--no-same-owner', '--keep-directory-symlink'];
  execFileSync('tar', [...options, '--anchored', '--wildcards', ...excluded], { input: archive });
  const status = join(root, 'var/lib/dpkg/status.d');
  mkdirSync(status, { recursive: true });
  writeFileSync(join(status, name), control);
}

/** The sources of this machine's release; fails on another release. */
export function hostSources(): string {
  const codename = /^VERSION_CODENAME=(.*)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1];
  const found = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'].find((path) =>
    existsSync(path),
  );
  if (codename === release && found !== undefined) return found;
  throw new Failure(
    `This machine is no Debian "${release}", from whose packages the image is made. Pass --sources FILE, an apt sources file of that release.`,
  );
}
