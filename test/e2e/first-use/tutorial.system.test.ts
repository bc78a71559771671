import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import {
  answersOk,
  freePort,
  type Program,
  startProgram,
  until,
} from '../../support/programs/processes.ts';
import { type GuideCommand, guideSteps, timeless } from '../../support/system/guide.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../../..');
const programs: Program[] = [];
const folder = fs.mkdtempSync(join(tmpdir(), 'tutorial-'));
afterAll(async () => {
  for (const program of programs) await program.kill();
  fs.rmSync(folder, { recursive: true, force: true });
});

const namedBlock = /`(tutorial\/[\w.-]+)`:\n\n```\w+\n([\s\S]*?)^```$/gm;

const lasting = (text: string) => timeless(text).replaceAll(/\bks_\w+/g, 'SWITCH');

/** Executes commands in one shell, as a reader does; returns the output of each. */
async function inOneShell(commands: readonly GuideCommand[]): Promise<readonly string[]> {
  const mark = '--- next command ---';
  const script = commands.map(({ line }) => `${line}\necho '${mark}'\n`).join('');
  const path = [join(root, 'cli'), process.env.PATH].join(delimiter);
  const { stdout } = await run('/bin/sh', ['-c', script], {
    cwd: folder,
    env: { PATH: path, HOME: folder },
    maxBuffer: 64 << 20,
  });
  return stdout.split(`${mark}\n`).slice(0, -1);
}

it('every command of the tutorial prints the output that the page shows', async () => {
  const [api, proxy, admin, upstream] = await Promise.all(Array.from({ length: 4 }, freePort));
  const page = fs
    .readFileSync(join(root, 'docs/tutorials/first-agent.md'), 'utf8')
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${api}`)
    .replaceAll('127.0.0.1:9000', `127.0.0.1:${upstream}`)
    .replaceAll('listen(9000,', `listen(${upstream},`);
  for (const [, name = '', text = ''] of page.matchAll(namedBlock)) {
    fs.mkdirSync(dirname(join(folder, name)), { recursive: true });
    fs.writeFileSync(join(folder, name), text);
  }
  const ports = {
    SALLYPORT_API_PORT: String(api),
    SALLYPORT_PROXY_PORT: String(proxy),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin),
  };
  const up = startProgram(
    'cli/main.ts',
    { SALLYPORT_DATA_DIR: join(folder, '.sallyport'), ...ports },
    { args: ['up'] },
  );
  programs.push(up, startProgram(join(folder, 'tutorial/refunds-api.mjs'), {}));
  await until('it is ready', () => up.output().includes('Sallyport is ready.'), 240_000);
  await until('the sidecar is ready', () => answersOk(`http://127.0.0.1:${admin}/readyz`), 60_000);

  const commands = guideSteps(page).flatMap((step) => (step.kind === 'command' ? [step] : []));
  expect(commands.length).toBeGreaterThan(12);
  const outputs = await inOneShell(commands);
  for (const [index, { line, printed }] of commands.entries()) {
    expect(`$ ${line}\n${lasting(outputs[index] ?? '')}`).toBe(`$ ${line}\n${lasting(printed)}`);
  }
}, 600_000);
