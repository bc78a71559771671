import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');
const generated = 'control-plane/platform/store/generated';
const manifest = JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly dependencies: Readonly<Record<string, string>>;
};
const folder = fs.mkdtempSync(join(tmpdir(), 'generated-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const git = (...args: readonly string[]) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 10_000_000 });

/** Returns the modules that a file imports when it runs; types are erased. */
function importsOf(text: string): readonly string[] {
  const statement =
    /^(?:import|export)\s(?!type\b)[^;'"]*?from\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)|^import\s+['"]([^'"]+)['"]/gm;
  return [...text.matchAll(statement)].flatMap(([, ...found]) => found.find(Boolean) ?? []);
}

function sources(of: string): readonly string[] {
  return fs
    .readdirSync(join(root, of), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|mjs|cjs)$/.test(name))
    .map((name) => join(of, name));
}

describe('an installation without development dependencies', () => {
  it('contains the committed database client, which matches the schema', () => {
    fs.mkdirSync(join(folder, 'prisma'));
    fs.copyFileSync(join(root, 'prisma/schema.prisma'), join(folder, 'prisma/schema.prisma'));
    const cli = join(root, 'node_modules/prisma/build/index.js');
    execFileSync(
      process.execPath,
      [cli, 'generate', '--no-hints', '--schema', 'prisma/schema.prisma'],
      {
        cwd: folder,
        stdio: 'pipe',
        env: {
          ...process.env,
          PRISMA_SCHEMA_ENGINE_BINARY: cli,
          PRISMA_HIDE_UPDATE_MESSAGE: '1',
          CHECKPOINT_DISABLE: '1',
        },
      },
    );
    const committed = git('ls-files', generated).trim().split('\n');
    expect(committed).toContain(`${generated}/client.ts`);
    for (const path of committed) {
      expect(git('show', `:${path}`) === fs.readFileSync(join(folder, path), 'utf8'), path).toBe(
        true,
      );
      const local = importsOf(git('show', `:${path}`)).filter((name) => name.startsWith('.'));
      const reached = local.map((name) => join(dirname(path), name));
      expect(reached.filter((one) => !committed.includes(one))).toEqual([]);
    }
  });

  it('contains every package that the programs import', () => {
    const folders = ['cli', 'control-plane', 'injector', 'proxy', 'shared'];
    const imported = folders.flatMap(sources).flatMap((file) =>
      importsOf(fs.readFileSync(join(root, file), 'utf8'))
        .filter((name) => !name.startsWith('.') && !isBuiltin(name))
        .map((name) => name.split('/', name.startsWith('@') ? 2 : 1).join('/')),
    );
    expect(new Set(imported).size).toBeGreaterThan(15);
    const missing = [...new Set(imported)].filter(
      (name) => manifest.dependencies[name] === undefined,
    );
    expect(missing).toEqual([]);
  });
});
