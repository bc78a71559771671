import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const program = resolve(import.meta.dirname, '../../scripts/run-tests.ts');
const packages = resolve(import.meta.dirname, '../../node_modules');
const folders: string[] = [];

afterAll(() => {
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

/** Runs a project with these test files. In each file, `firstTime` is true in the first run only. */
function runProject(files: Record<string, string>) {
  const folder = fs.mkdtempSync(join(tmpdir(), 'run-tests-'));
  folders.push(folder);
  fs.symlinkSync(packages, join(folder, 'node_modules'));
  fs.writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  fs.writeFileSync(join(folder, 'vitest.config.ts'), 'export default { test: { maxWorkers: 2 } };');
  for (const [name, text] of Object.entries(files)) {
    const preamble = `import fs from 'node:fs';
      import { beforeAll, describe, expect, it } from 'vitest';
      const firstTime = !fs.existsSync('${name}.seen');
      fs.writeFileSync('${name}.seen', '');`;
    fs.writeFileSync(join(folder, `${name}.test.ts`), `${preamble}\n${text}`);
  }
  const env = { PATH: process.env.PATH, NO_COLOR: '1' };
  const { status, stdout } = spawnSync(process.execPath, [program], {
    cwd: folder,
    env,
    encoding: 'utf8',
  });
  const lines = stdout.trim().split('\n');
  return {
    status,
    flaky: lines.filter((line) => line.startsWith('flaky: ')),
    failed: lines.filter((line) => line.startsWith('failed: ')),
    last: lines.at(-1),
  };
}

const good = `it('works', () => {});`;

it('the run passes if a test, a file, a hook or a worker fails only once, or an unhandled error occurs only once', () => {
  const run = runProject({
    good,
    shaky: `${good} it('shakes', () => expect(firstTime).toBe(false));`,
    load: `if (firstTime) throw new Error('no load'); ${good}`,
    hook: `describe('hooks', () => { beforeAll(() => { if (firstTime) throw new Error('no hook'); }); ${good} });`,
    stray: `it('throws later', () => { if (firstTime) Promise.reject(new Error('stray')); });`,
    crash: `it('crashes', () => { if (firstTime) process.kill(process.pid, 'SIGKILL'); });`,
  });
  expect(run).toMatchObject({ status: 0, failed: [], last: '7 passed, 0 failed' });
  expect(run.flaky.sort()).toEqual([
    'flaky: crash.test.ts: (the file)',
    'flaky: crash.test.ts: crashes',
    'flaky: hook.test.ts: hooks (a hook)',
    'flaky: load.test.ts: (the file)',
    'flaky: shaky.test.ts: shakes',
    'flaky: stray.test.ts: (an unhandled error)',
  ]);
});

it('the run fails if anything fails twice', () => {
  const run = runProject({
    good: `${good} it.skip('is left out', () => {});`,
    broken: `${good} it('breaks', () => expect(1).toBe(2));`,
    load: `throw new Error('no load');`,
    stray: `it('throws later', () => { Promise.reject(new Error('stray')); });`,
    crash: `it('crashes', () => process.kill(process.pid, 'SIGKILL'));`,
  });
  expect(run).toMatchObject({ status: 1, flaky: [] });
  expect(run.failed.map((line) => line.split(':')[1]?.trim())).toEqual(
    expect.arrayContaining(['broken.test.ts', 'load.test.ts', 'stray.test.ts', 'crash.test.ts']),
  );
  expect(run.last).toMatch(/^\d+ passed, \d+ failed, 1 skipped$/);
});
