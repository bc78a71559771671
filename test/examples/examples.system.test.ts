import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  answersOk,
  freePort,
  type Program,
  startProgram,
  until,
} from '../support/programs/processes.ts';
import { pythonWith } from '../support/programs/python.ts';
import { type GuideCommand, guideSteps, timeless } from '../support/system/guide.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');
const folder = fs.mkdtempSync(join(tmpdir(), 'examples-'));
const programs: Program[] = [];
let path: string;

beforeAll(async () => {
  const [api, proxy, admin, payments, crm] = await Promise.all(Array.from({ length: 5 }, freePort));
  copyExamples([
    ['127.0.0.1:8080', `127.0.0.1:${api}`],
    ['127.0.0.1:9100', `127.0.0.1:${payments}`],
    ['127.0.0.1:9200', `127.0.0.1:${crm}`],
    ['listen(9100', `listen(${payments}`],
    ['listen(\n  9200', `listen(\n  ${crm}`],
  ]);
  const python = await pythonWith(join(root, 'examples/python-agent/requirements.txt'));
  path = [dirname(python), process.env.PATH].join(delimiter);
  const env = {
    SALLYPORT_DATA_DIR: join(folder, '.sallyport'),
    SALLYPORT_API_PORT: String(api),
    SALLYPORT_PROXY_PORT: String(proxy),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin),
  };
  const up = startProgram('cli/main.ts', env, { args: ['up'] });
  programs.push(up);
  for (const server of ['payments-api/server.ts', 'mcp-server/server.ts']) {
    programs.push(startProgram(join(folder, 'examples', server), {}));
  }
  await until('it is ready', () => up.output().includes('Sallyport is ready.'), 240_000);
  await until('the sidecar is ready', () => answersOk(`http://127.0.0.1:${admin}/readyz`));
}, 600_000);
afterAll(async () => {
  for (const program of programs) await program.kill();
  fs.rmSync(folder, { recursive: true, force: true });
});

/** Copies the examples as they are in a clone, but with the addresses of this test. */
function copyExamples(addresses: readonly (readonly [string, string])[]): void {
  fs.cpSync(join(root, 'examples'), join(folder, 'examples'), { recursive: true });
  for (const name of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const file = join(folder, name);
    if (fs.statSync(file).isDirectory()) continue;
    const text = addresses.reduce(
      (changed, [from, to]) => changed.replaceAll(from, to),
      fs.readFileSync(file, 'utf8'),
    );
    fs.writeFileSync(file, text);
  }
  for (const name of ['cli', 'node_modules']) fs.symlinkSync(join(root, name), join(folder, name));
}

function commandsOf(example: string): readonly GuideCommand[] {
  const page = fs.readFileSync(join(folder, 'examples', example, 'README.md'), 'utf8');
  return guideSteps(page).flatMap((step) => (step.kind === 'command' ? [step] : []));
}

const isDecision = ({ line }: GuideCommand) => line.startsWith('sallyport approvals');
const waiting = /Waiting for a human: approval (\d+)\n/;

/**
 * Types the commands into one shell, as a reader does, and returns the output of each. A command
 * that decides an approval runs in a shell of its own, as soon as the command before it reports
 * that it waits for a human.
 */
async function follow(commands: readonly GuideCommand[]): Promise<readonly string[]> {
  const shell = spawn('/bin/sh', { cwd: folder, env: { PATH: path, HOME: folder } });
  const outputs: string[] = [];
  let text = '';
  for (const stream of [shell.stdout, shell.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  }
  for (const [index, command] of commands.entries()) {
    if (isDecision(command)) continue;
    text = '';
    const mark = `--- end of ${index} ---\n`;
    shell.stdin.write(`${command.line}\nprintf '%s' '${mark.trimEnd()}\n'\n`);
    const next = commands[index + 1];
    const decision = next !== undefined && isDecision(next) ? next : undefined;
    if (decision !== undefined) {
      await until(`${command.line} waits`, () => waiting.test(text));
      const line = decision.line.replace(/\d+$/, waiting.exec(text)?.[1] ?? '');
      outputs[index + 1] = (await inShell(line)).stdout;
    }
    await until(`${command.line} ends`, () => text.endsWith(mark));
    outputs[index] = text.slice(0, -mark.length);
  }
  shell.stdin.end();
  await once(shell, 'exit');
  return outputs;
}

function inShell(line: string) {
  const PATH = [join(root, 'cli'), path].join(delimiter);
  return run('/bin/sh', ['-c', line], { cwd: folder, env: { PATH, HOME: folder } });
}

/**
 * Removes what differs between runs: times, and ids that depend on the examples that ran before.
 */
const lasting = (text: string) =>
  timeless(text)
    .replaceAll(/\b(approval|policy) \d+/gi, '$1 NUMBER')
    .trimEnd();

describe('every command of an example prints the output that the example’s page shows', () => {
  it.each(['payments-api', 'python-agent', 'typescript-agent', 'mcp-server'])(
    'examples/%s',
    async (example) => {
      const setUp = example.endsWith('-agent') ? commandsOf('payments-api').slice(0, 1) : [];
      const commands = [...setUp, ...commandsOf(example)];
      const outputs = await follow(commands);
      const transcript = (texts: readonly string[]) =>
        commands.map(({ line }, index) => `$ ${line}\n${lasting(texts[index] ?? '')}`).join('\n');
      expect(transcript(outputs)).toBe(transcript(commands.map(({ printed }) => printed)));
    },
    300_000,
  );
});
