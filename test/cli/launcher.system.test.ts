import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

const run = promisify(execFile);
const launcher = resolve(import.meta.dirname, '../../cli/sallyport');
const folder = fs.mkdtempSync(join(tmpdir(), 'launcher-'));

afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

it('`sallyport` runs from any folder and through links, with any `node` on the PATH', async () => {
  fs.writeFileSync(join(folder, 'node'), '#!/bin/sh\nexit 9\n', { mode: 0o755 });
  fs.symlinkSync(launcher, join(folder, 'absolute'));
  fs.symlinkSync('absolute', join(folder, 'sallyport'));
  const env = { PATH: `${folder}:${process.env.PATH}` };
  for (const file of [launcher, './sallyport']) {
    const { stdout } = await run(file, ['help'], { cwd: folder, env });
    expect(stdout).toMatch(/^Usage: sallyport <command>/);
  }
});

const commands = [
  'up',
  'demo',
  'run',
  'mcp',
  'sidecars',
  'network',
  'kill-switch',
  'policy',
  'approvals',
  'evidence',
  'vault',
  'admin',
];

it.each(commands)('`sallyport %s --help` prints its usage', async (command) => {
  const { stdout } = await run(launcher, [command, '--help']);
  expect(stdout).toContain(`Usage: sallyport ${command} `);
});

it.each([
  [['polcy', 'lint'], 'policy'],
  [['aprovals'], 'approvals'],
  [['policy', 'pusch'], 'push'],
  [['evidence', 'verfy'], 'verify'],
  [['kill-switch', 'am'], 'arm'],
  [['sidecars', 'tokn'], 'token'],
  [['network', 'aply'], 'apply'],
  [['vault', 'rewrp'], 'rewrap'],
  [['admin', 'set-plans'], 'set-plan'],
  [['kill-switch', 'arm', '--resaon', 'x'], '--reason'],
  [['sidecars', 'list', '--jsn'], '--json'],
])('`sallyport` suggests the nearest command or option for %j: %s', async (args, nearest) => {
  await expect(run(launcher, args)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`Did you mean ${nearest}?`),
  });
});

it.each([
  ['approvals', 'list'],
  ['kill-switch', 'arm'],
  ['sidecars', 'token'],
  ['vault', 'status'],
  ['admin', 'create-tenant'],
])('`sallyport %s %s --help` prints the usage of that command', async (command, verb) => {
  const { stdout } = await run(launcher, [command, verb, '--help']);
  expect(stdout).toMatch(new RegExp(`^Usage: sallyport ${command} ${verb} `));
});

it('`sallyport` does not print the value of an unknown option, which may be a secret', async () => {
  await expect(run(launcher, ['approvals', 'list', '--api-key=apk_secret'])).rejects.toMatchObject({
    code: 2,
    stderr: expect.not.stringContaining('apk_secret'),
  });
});

it('`sallyport` reports dependencies that are not installed', async () => {
  const cli = join(folder, 'fresh', 'cli');
  fs.mkdirSync(cli, { recursive: true });
  fs.copyFileSync(launcher, join(cli, 'sallyport'));
  await expect(run(join(cli, 'sallyport'), ['help'])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`run npm ci in ${fs.realpathSync(join(folder, 'fresh'))}.`),
  });
});
