import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { signedTables } from '../control-plane/platform/store/signed-columns.ts';

const root = resolve(import.meta.dirname, '..');
const programs = ['shared', 'proxy', 'control-plane', 'injector', 'cli'];

interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** Imported files of this repository, relative to its root. */
  readonly imports: readonly string[];
  /** Like `imports`, but without `import type`, which is erased at run time. */
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
  it('apply to all source files', () => {
    expect(files.length).toBeGreaterThan(20);
    expect(files.some((file) => file.imports.length > 0)).toBe(true);
  });

  it('prevent shared from importing a program or the command line', () => {
    expect(
      offenders(
        (file) => isIn(file.path, 'shared') && file.imports.some((to) => !isIn(to, 'shared')),
      ),
    ).toEqual([]);
  });

  it('prevent imports between proxy and control-plane', () => {
    expect(
      offenders(
        (file) =>
          (isIn(file.path, 'proxy') && file.imports.some((to) => isIn(to, 'control-plane'))) ||
          (isIn(file.path, 'control-plane') && file.imports.some((to) => isIn(to, 'proxy'))),
      ),
    ).toEqual([]);
  });

  it('permit only cli to import both programs, and no other folder to import cli', () => {
    expect(
      offenders((file) => !isIn(file.path, 'cli') && file.imports.some((to) => isIn(to, 'cli'))),
    ).toEqual([]);
  });

  it('permit I/O within shared only in shared/bus, shared/disk and shared/upstream', () => {
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

  it('permit node-forge in shared/x509 only', () => {
    expect(
      offenders(
        (file) =>
          file.packages.some((name) => name.startsWith('node-forge')) &&
          !isIn(file.path, 'shared/x509'),
      ),
    ).toEqual([]);
  });

  it('keep OpenTelemetry out of the modules that are loaded when no collector is configured', () => {
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

  it('permit process.env in settings and main files only', () => {
    const allowed = /(^|\/)(settings|config|main)\.ts$|^cli\//;
    expect(offenders((file) => /process\.env/.test(file.text) && !allowed.test(file.path))).toEqual(
      [],
    );
  });

  it('limit files, tests included, to 400 lines', () => {
    const long = [...files, ...sourcesIn(['test'])].filter(
      (file) => file.text.split('\n').length > 401,
    );
    expect(long.map((file) => file.path)).toEqual([]);
  });

  it('permit no import cycle of files', () => {
    expect(circlesIn(new Map(files.map((file) => [file.path, file.imports])))).toEqual([]);
  });

  it('permit no import cycle of folders', () => {
    expect(circlesIn(folderGraph(files, dirname))).toEqual([]);
    for (const program of programs) {
      const topFolder = (path: string) => path.split('/').slice(0, 2).join('/');
      const group = (path: string) => (dirname(path) === program ? program : topFolder(path));
      const own = files.filter(({ path }) => isIn(path, program));
      expect(circlesIn(folderGraph(own, group))).toEqual([]);
    }
  });

  it('limit folders to 25 files', () => {
    const sizes = new Map<string, number>();
    for (const { path } of [...files, ...sourcesIn(['test'])]) {
      sizes.set(dirname(path), (sizes.get(dirname(path)) ?? 0) + 1);
    }
    expect([...sizes].filter(([, size]) => size > 25)).toEqual([]);
  });
});

const signedStore = 'control-plane/platform/signed-store';

/**
 * Files outside the store that access signed tables by SQL or Prisma delegates, each with the
 * reason why a forged row gains nothing there.
 */
const rawUses: Readonly<Record<string, string>> = {
  'control-plane/actions/state-query.ts': 'reads rows as Unverified; load-state.ts verifies them',
  'control-plane/agents/set-agent-status.ts': 'revokes passports, which only takes authority',
  'control-plane/approvals/consume-approval.ts': 'one conditional statement, then signChange',
  'control-plane/approvals/store-decision-hashes.ts': 'sets an unsigned column from the ledger',
  'control-plane/compliance/oversight-control.ts': 'counts for a report',
  'control-plane/core/section-versions.ts': 'names the tenants',
  'control-plane/integrity/active-versions.ts': 'names the tenants',
  'control-plane/integrity/baseline.ts': 'signs rows of earlier versions, once and unread',
  'control-plane/integrity/outbox-baseline.ts': 'signs rows of earlier versions, once and unread',
  'control-plane/kill-switches/confirmation.ts': 'shows what sidecars reported',
  'control-plane/policies/install-pack.ts': 'locks rows',
  'control-plane/publishing/build-sections.ts': 'reads tools as Unverified and verifies them',
  'control-plane/publishing/leases.ts': 'locks a sidecar; the row is verified after it',
  'control-plane/records/load-agent.ts': 'locks an agent, and refuses a disabled one',
  'control-plane/telemetry/state-metrics.ts': 'counts for metrics',
};

const camelCase = (name: string) =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
const delegateNames = signedTables.map(camelCase).join('|');
const delegateUse = new RegExp(
  `[.?]\\s*(${delegateNames})\\s*[?!]?\\.\\s*(find|create|update|upsert|delete|count|aggregate|groupBy)`,
);
const sqlUse = new RegExp(
  `\\b(from|join|into|update|only|using)\\s+"?(${signedTables.join('|')})\\b"?(?=[\\s,;)\`]|$)`,
  'i',
);

/** Returns whether a source text accesses a signed table without the signed store. */
function isRawUse(text: string): boolean {
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  return delegateUse.test(code) || sqlUse.test(code);
}

describe('signed tables', () => {
  const outside = files.filter(
    ({ path }) => /^(control-plane|cli\/embedded)\//.test(path) && !isIn(path, signedStore),
  );

  it('are read and written through the signed store only', () => {
    const raw = outside.filter(({ text }) => isRawUse(text)).map(({ path }) => path);
    expect(raw.toSorted()).toEqual(Object.keys(rawUses));
  });

  it.each([
    'await tx.agent.findMany({ where })',
    'db.apiKey\n    .update({ where, data })',
    'services.db.enrolmentToken.count()',
    'tx.$queryRaw`select * from kill_switch where id = $1`',
    'pool.query("UPDATE approval SET status = $1")',
    'insert into service_account (id) values ($1)',
    'select 1 from evidence_row e\n join tenant t on t.id = e.tenant_id',
  ])('are not accessed without the signed store: the check finds %s', (text) => {
    expect(isRawUse(text)).toBe(true);
  });

  it('are distinguished by the check from unsigned tables and from comments', () => {
    expect(isRawUse('tx.toolVersion.findMany(); db.passportUse.count()')).toBe(false);
    expect(isRawUse('select 1 from tool_version v join passport_use u on true')).toBe(false);
    expect(isRawUse('/** The mode from tenant, kill switches and policies. */')).toBe(false);
  });

  it('are verified and signed by the store only', () => {
    const byHand = /\bguard\s*\.\s*(sign|holds|assert)\(|\bsignRow\(|\bas Verified</;
    const callers = outside.filter(({ text }) => byHand.test(text)).map(({ path }) => path);
    expect(callers.toSorted()).toEqual([
      'control-plane/integrity/baseline.ts',
      'control-plane/integrity/outbox-baseline.ts',
      'control-plane/platform/integrity/sign-row.ts',
    ]);
  });
});

/** Returns which folder imports which other folders. `folderOf` returns the folder of a file. */
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

/** Returns the cycles that a depth-first search through the graph finds. */
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
