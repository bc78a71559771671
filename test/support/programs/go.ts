import { execFile } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from './cached.ts';
import { findProgram, findPrograms } from './programs.ts';

const run = promisify(execFile);

/**
 * Builds a program from one Go file that uses only the standard library. Builds it once and caches
 * it.
 */
export function goProgram(source: string): Promise<string> {
  return build({ cwd: undefined, target: source, sources: [source], flags: '-mod=mod' });
}

/** Builds a program from a folder with a Go module. `go.sum` pins the module's dependencies. */
export function goModule(folder: string): Promise<string> {
  const sources = ['main.go', 'go.mod', 'go.sum'].map((name) => join(folder, name));
  return build({ cwd: folder, target: '.', sources, flags: '-mod=readonly' });
}

/**
 * Returns the program of a published Go package at an exact version, such as
 * `helm.sh/helm/v3/cmd/helm`; builds it once and caches it. `needs` is the Go version that its
 * module requires.
 */
export async function goPackage(path: string, version: string, needs: string): Promise<string> {
  const go = await goOfVersion(needs);
  const folder = await cachedFolder('go-package', [path, version], async (draft) => {
    const env = {
      ...process.env,
      CGO_ENABLED: '0',
      GOFLAGS: '',
      GOTOOLCHAIN: 'local',
      GOBIN: draft,
    };
    const install = [go, 'install', '-ldflags=-s -w', `${path}@${version}`];
    // Test files that need the program at the same time wait for the first of them. Go caches its
    // build.
    const [flock] = await findPrograms(['flock']);
    const lock = flock === undefined ? [] : [flock, join(tmpdir(), 'sallyport-go-package.lock')];
    const [file = '', ...args] = [...lock, ...install];
    await run(file, args, { env });
  });
  return join(folder, basename(path));
}

export function installedGo(): Promise<string> {
  return findProgram(['go'], 'golang-go');
}

async function goFor(module: string): Promise<string> {
  return goOfVersion(/^go (\S+)$/m.exec(await readFile(module, 'utf8'))?.[1] ?? '1.19');
}

/**
 * Returns the installed Go or, if a newer version is wanted, that version from the module proxy. Go
 * 1.21 and later would fetch it automatically; the version in Debian 12 does not.
 */
async function goOfVersion(wanted: string): Promise<string> {
  const go = await installedGo();
  const { stdout } = await run(go, ['env', 'GOVERSION', 'GOOS', 'GOARCH']);
  const [version = '', os, arch] = stdout.trim().split('\n');
  if (compareVersions(version.replace(/^go/, ''), wanted) >= 0) return go;
  const toolchain = `golang.org/toolchain@v0.0.1-go${wanted}.${os}-${arch}`;
  const folder = await cachedFolder('go-toolchain', [toolchain], async (draft) => {
    const { stdout: found } = await run(go, ['mod', 'download', '-json', toolchain], {
      cwd: draft,
      env: { ...process.env, GOFLAGS: '-mod=mod' },
    });
    await cp((JSON.parse(found) as { readonly Dir: string }).Dir, draft, { recursive: true });
    // Changes the modes, because the module cache is read-only and its files are not executable.
    await run('chmod', ['-R', 'u+rwX', draft]);
    await run('chmod', ['-R', '+x', join(draft, 'bin'), join(draft, 'pkg/tool')]);
  });
  return join(folder, 'bin/go');
}

function compareVersions(one: string, other: string): number {
  const parts = (version: string) => version.split('.').map((part) => Number.parseInt(part, 10));
  const [ones, others] = [parts(one), parts(other)];
  const at = [0, 1, 2].find((index) => (ones[index] ?? 0) !== (others[index] ?? 0));
  return at === undefined ? 0 : (ones[at] ?? 0) - (others[at] ?? 0);
}

interface Build {
  readonly cwd: string | undefined;
  readonly target: string;
  readonly sources: readonly string[];
  readonly flags: string;
}

async function build({ cwd, target, sources, flags }: Build): Promise<string> {
  const go = cwd === undefined ? await installedGo() : await goFor(join(cwd, 'go.mod'));
  const proxy = cwd === undefined ? { GOPROXY: 'off' } : {};
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: flags, GOTOOLCHAIN: 'local', ...proxy };
  const { stdout: version } = await run(go, ['version'], { env });
  const texts = await Promise.all(sources.map((source) => readFile(source, 'utf8')));
  const folder = await cachedFolder('go', [...texts, version], async (draft) => {
    await run(go, ['build', '-buildvcs=false', '-o', join(draft, 'program'), target], { env, cwd });
  });
  return join(folder, 'program');
}
