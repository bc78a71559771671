import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const programs = ['shared', 'proxy', 'control-plane', 'cli'];

interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** Files of this repository, relative to its root. */
  readonly imports: readonly string[];
  /** The same without `import type`, which leaves nothing at run time. */
  readonly runtimeImports: readonly string[];
  readonly packages: readonly string[];
}

const importForm =
  /^(?:import|export)\s+(type\s)?[^'"]*?from\s+'([^']+)'|^import\s+'([^']+)'|import\(\s*'([^']+)'\s*\)/gms;

function readSource(path: string): SourceFile {
  const text = readFileSync(join(root, path), 'utf8');
  const all = [...text.matchAll(importForm)].map((match) => ({
    target: match[2] ?? match[3] ?? match[4] ?? '',
    typeOnly: match[1] !== undefined,
  }));
  const local = all
    .filter(({ target }) => target.startsWith('.'))
    .map(({ target, typeOnly }) => ({
      target: relative(root, resolve(root, dirname(path), target)),
      typeOnly,
    }));
  return {
    path,
    text,
    imports: local.map(({ target }) => target),
    runtimeImports: local.filter(({ typeOnly }) => !typeOnly).map(({ target }) => target),
    packages: all.filter(({ target }) => !target.startsWith('.')).map(({ target }) => target),
  };
}

function sourcesIn(folders: readonly string[]): SourceFile[] {
  return folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts') && !name.includes('generated'))
        .map((name) => join(folder, name)),
    )
    .map(readSource);
}

const files = sourcesIn(programs);

function offenders(offends: (file: SourceFile) => boolean): string[] {
  return files.filter(offends).map((file) => file.path);
}

const isIn = (path: string, folder: string) => path.startsWith(`${folder}/`);

describe('import rules', () => {
  it('finds the source it judges', () => {
    expect(files.length).toBeGreaterThan(20);
    expect(files.some((file) => file.imports.length > 0)).toBe(true);
  });

  it('shared imports neither program nor the command line', () => {
    expect(
      offenders(
        (file) => isIn(file.path, 'shared') && file.imports.some((to) => !isIn(to, 'shared')),
      ),
    ).toEqual([]);
  });

  it('proxy and control-plane never import each other', () => {
    expect(
      offenders(
        (file) =>
          (isIn(file.path, 'proxy') && file.imports.some((to) => isIn(to, 'control-plane'))) ||
          (isIn(file.path, 'control-plane') && file.imports.some((to) => isIn(to, 'proxy'))),
      ),
    ).toEqual([]);
  });

  it('only cli imports both programs, and nothing imports cli', () => {
    expect(
      offenders((file) => !isIn(file.path, 'cli') && file.imports.some((to) => isIn(to, 'cli'))),
    ).toEqual([]);
  });

  it('only shared/bus, shared/disk and shared/upstream do I/O in shared', () => {
    const io =
      /^(node:)?(fs|net|http|https|http2|tls|dgram|dns|child_process|worker_threads)(\/|$)|^(ioredis|undici|pg|express)(\/|$)/;
    expect(
      offenders(
        (file) =>
          isIn(file.path, 'shared') &&
          !isIn(file.path, 'shared/bus') &&
          !isIn(file.path, 'shared/disk') &&
          !isIn(file.path, 'shared/upstream') &&
          file.packages.some((name) => io.test(name)),
      ),
    ).toEqual([]);
  });

  it('only proxy/tls imports node-forge', () => {
    expect(
      offenders((file) => file.packages.includes('node-forge') && !isIn(file.path, 'proxy/tls')),
    ).toEqual([]);
  });

  it('OpenTelemetry is loaded by what is loaded only where a collector is named', () => {
    const traced = ['proxy/telemetry/call-trace.ts', 'proxy/telemetry/otlp.ts'];
    expect(
      offenders((file) => file.packages.some((name) => name.startsWith('@opentelemetry/'))),
    ).toEqual(traced);
    const loads = files.filter((file) => file.runtimeImports.some((to) => traced.includes(to)));
    expect(loads.map(({ path }) => path)).toEqual([
      'proxy/telemetry/open-tracing.ts',
      'proxy/telemetry/otlp.ts',
    ]);
    const opening = files.find(({ path }) => path === 'proxy/telemetry/open-tracing.ts');
    expect(opening?.text).toMatch(
      /if \(settings === undefined\)[\s\S]*await import\('.\/otlp.ts'\)/,
    );
    expect(opening?.text).not.toMatch(/^import \{[^}]*\} from '.\/otlp.ts'/m);
  });

  it('process.env is read in settings and main files only', () => {
    const allowed = /(^|\/)(settings|config|main)\.ts$|^cli\//;
    expect(offenders((file) => /process\.env/.test(file.text) && !allowed.test(file.path))).toEqual(
      [],
    );
  });

  it('no file is longer than 400 lines, a test neither', () => {
    const long = [...files, ...sourcesIn(['test'])].filter(
      (file) => file.text.split('\n').length > 401,
    );
    expect(long.map((file) => file.path)).toEqual([]);
  });

  it('no import runs in a circle', () => {
    expect(circlesIn(new Map(files.map((file) => [file.path, file.imports])))).toEqual([]);
  });

  it('folders do not import each other in a circle', () => {
    expect(circlesIn(folderGraph(files, dirname))).toEqual([]);
    for (const program of programs) {
      const topFolder = (path: string) => path.split('/').slice(0, 2).join('/');
      const group = (path: string) => (dirname(path) === program ? program : topFolder(path));
      const own = files.filter(({ path }) => isIn(path, program));
      expect(circlesIn(folderGraph(own, group))).toEqual([]);
    }
  });

  it('no folder holds more than 25 files', () => {
    const sizes = new Map<string, number>();
    for (const { path } of [...files, ...sourcesIn(['test'])]) {
      sizes.set(dirname(path), (sizes.get(dirname(path)) ?? 0) + 1);
    }
    expect([...sizes].filter(([, size]) => size > 25)).toEqual([]);
  });
});

/** Which folder imports which; `folderOf` gives the folder of a file. */
function folderGraph(
  sources: readonly SourceFile[],
  folderOf: (path: string) => string,
): ReadonlyMap<string, readonly string[]> {
  const graph = new Map<string, Set<string>>();
  const own = new Set(sources.map(({ path }) => path));
  for (const { path, imports } of sources) {
    const from = folderOf(path);
    const targets = graph.get(from) ?? new Set();
    graph.set(from, targets);
    for (const to of imports) {
      if (own.has(to) && folderOf(to) !== from) targets.add(folderOf(to));
    }
  }
  return new Map([...graph].map(([folder, targets]) => [folder, [...targets]]));
}

/** Every circle that a walk of the graph meets first. */
function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (node: string, trail: readonly string[]) => {
    if (trail.includes(node)) {
      circles.push([...trail.slice(trail.indexOf(node)), node].join(' -> '));
      return;
    }
    if (done.has(node)) return;
    for (const next of graph.get(node) ?? []) visit(next, [...trail, node]);
    done.add(node);
  };
  for (const node of graph.keys()) visit(node, []);
  return circles;
}
