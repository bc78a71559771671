import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { bufferLines, silentLog } from '../../../shared/base/log.ts';
import { until } from '../../support/base/until.ts';

it('log lines are buffered for a short time and then written together in order', async () => {
  const written: string[] = [];
  const gathered = bufferLines({ write: (text) => written.push(text) });
  for (let index = 0; index < 5; index++) gathered.write(`${index}\n`);
  expect(written).toEqual([]);
  await until(() => written.length > 0);
  expect(written).toEqual(['0\n1\n2\n3\n4\n']);
});

it('log text that fills the buffer is written immediately', () => {
  const written: string[] = [];
  const gathered = bufferLines({ write: (text) => written.push(text) });
  gathered.write('x'.repeat(40_000));
  expect(written).toHaveLength(1);
});

it('a log line longer than the buffer is written separately, after the buffered lines', () => {
  const written: string[] = [];
  const gathered = bufferLines({ write: (text) => written.push(text) });
  const lines = ['ä€\u{1f511}\n', 'y'.repeat(100_000), 'last\n'];
  for (const line of lines) gathered.write(line);
  gathered.write('z'.repeat(40_000));
  expect(written.join('')).toBe([...lines, 'z'.repeat(40_000)].join(''));
});

it('the last log line is written when the process exits', () => {
  const log = JSON.stringify(resolve(import.meta.dirname, '../../../shared/base/log.ts'));
  const program = `const { bufferLines } = await import(${log});
    bufferLines(process.stdout).write('last words');
    process.exit(3);`;
  const { stdout, status } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', program],
    { encoding: 'utf8' },
  );
  expect({ stdout, status }).toEqual({ stdout: 'last words', status: 3 });
});

it('a log line with the field `err` contains the message, stack and cause of the error', () => {
  const log = JSON.stringify(resolve(import.meta.dirname, '../../../shared/base/program-log.ts'));
  const program = `const { programLog } = await import(${log});
    const cause = new Error('the disk is full');
    programLog('test', 'info').error({ err: new Error('sealing failed', { cause }), events: 3 }, 'said');`;
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  const line = JSON.parse(stderr) as { err: { message: string; stack: string }; events: number };
  expect(line.err.message).toContain('sealing failed');
  expect(line.err.stack).toMatch(/sealing failed[\s\S]*the disk is full/);
  expect(line.events).toBe(3);
});

// The compiler is the test (`npm run check`). The type is needed because pino prints an error in
// any other field as `{}`.
it('the type of the logger accepts errors only in the field `err`', () => {
  const thrown: unknown = new Error('thrown');
  const error = new TypeError('typed');
  silentLog.error({ err: thrown, count: 1, ids: ['a'], nested: { deep: null } }, 'fine');
  // @ts-expect-error an unknown may be an error
  silentLog.error({ error: thrown }, 'lost');
  // @ts-expect-error an error
  silentLog.warn({ error }, 'lost');
  // @ts-expect-error an error under any name
  silentLog.info({ cause: error, count: 1 }, 'lost');
  // @ts-expect-error an error within
  silentLog.debug({ details: { error } }, 'lost');
  expect(Object.keys(silentLog)).toEqual(['debug', 'info', 'warn', 'error']);
});
