import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from './cached.ts';
import { findProgram } from './programs.ts';

const run = promisify(execFile);

/** The program of one Go file that needs the standard library only; built once and kept. */
export function goProgram(source: string): Promise<string> {
  return build({ cwd: undefined, target: source, sources: [source], flags: '-mod=mod' });
}

/** The program of a folder with a Go module; what it requires is pinned by its `go.sum`. */
export function goModule(folder: string): Promise<string> {
  const sources = ['main.go', 'go.mod', 'go.sum'].map((name) => join(folder, name));
  return build({ cwd: folder, target: '.', sources, flags: '-mod=readonly' });
}

interface Build {
  readonly cwd: string | undefined;
  readonly target: string;
  readonly sources: readonly string[];
  readonly flags: string;
}

async function build({ cwd, target, sources, flags }: Build): Promise<string> {
  const go = await findProgram(['go'], 'golang-go');
  const proxy = cwd === undefined ? { GOPROXY: 'off' } : {};
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: flags, GOTOOLCHAIN: 'local', ...proxy };
  const { stdout: version } = await run(go, ['version'], { env });
  const texts = await Promise.all(sources.map((source) => readFile(source, 'utf8')));
  const folder = await cachedFolder('go', [...texts, version], async (draft) => {
    await run(go, ['build', '-buildvcs=false', '-o', join(draft, 'program'), target], { env, cwd });
  });
  return join(folder, 'program');
}
