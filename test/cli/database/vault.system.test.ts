import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { startProgram } from '../../support/programs/processes.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-vault-'));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

async function vault(...args: string[]) {
  const env = { SALLYPORT_DATA_DIR: dataDir, SALLYPORT_LOG_LEVEL: 'silent' };
  const program = startProgram('cli/main.ts', env, { args: ['vault', ...args] });
  return { code: await program.exited(), text: program.output() };
}

/** The report on standard output; progress goes to standard error. */
const reportIn = ({ text }: { readonly text: string }) => JSON.parse(text.slice(text.indexOf('{')));

it('one vault command replaces the master key of an embedded instance and removes the old key', async () => {
  const first = await vault('rotate-master-key', '--json');
  expect(first, first.text).toMatchObject({ code: 0 });
  const before = readFileSync(join(dataDir, 'master.key'), 'utf8');
  const second = await vault('rotate-master-key', '--json');
  expect(second, second.text).toMatchObject({ code: 0 });
  const { active } = reportIn(first);
  expect(reportIn(second)).toMatchObject({ retired: [active], rewrapped: 1 });
  expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).not.toBe(before);
  expect(readdirSync(dataDir).filter((name) => name.startsWith('master'))).toEqual(['master.key']);
  const status = await vault('status');
  expect(status.code, status.text).toBe(0);
  expect(status.text).toMatch(/kek_\w+ +active +1 +environment/);
  expect(status.text).toMatch(new RegExp(`${active} +retired +0`));
  expect(status.text).not.toContain(before.trim());
}, 240_000);

it('vault prints its usage for invalid arguments', async () => {
  expect(await vault('rotate')).toMatchObject({ code: 2, text: expect.stringContaining('Usage') });
  expect(await vault('status', '--jsn')).toMatchObject({
    code: 2,
    text: expect.stringContaining("Unknown option '--jsn'. Did you mean --json?"),
  });
  expect(await vault('rewrap', 'now')).toMatchObject({
    code: 2,
    text: expect.stringContaining('Expected 0 arguments but got 1: now.'),
  });
});
