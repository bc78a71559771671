import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { answersOk, freePort, type Program, startProgram, until } from '../support/processes.ts';

const dataDir = fs.mkdtempSync(join(tmpdir(), 'embedded-'));
const started: Program[] = [];

afterAll(async () => {
  await Promise.all(started.map((program) => program.kill()));
  fs.rmSync(dataDir, { recursive: true, force: true });
});

function start(command: string, env: Readonly<Record<string, string>>, ...more: string[]): Program {
  const program = startProgram('cli/main.ts', env, { args: [command, ...more] });
  started.push(program);
  return program;
}

it('`up` serves on both ports, ends with 0 on SIGTERM, and keeps its state over a restart', async () => {
  const [api, proxy, admin] = [await freePort(), await freePort(), await freePort()];
  const env = {
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: String(api),
    SALLYPORT_PROXY_PORT: String(proxy),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin),
  };
  const up = async () => {
    const program = start('up', env);
    for (const port of [api, admin]) {
      await until(`${port} is ready`, () => answersOk(`http://127.0.0.1:${port}/readyz`));
    }
    await until('it says so', () => program.output().includes('Sallyport is ready.'));
    return program;
  };
  const users = async (method: string, body?: object) => {
    const key = fs.readFileSync(join(dataDir, 'bootstrap-key'), 'utf8').trim();
    const response = await fetch(`http://127.0.0.1:${api}/api/v1/users/ada`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  };
  const first = await up();
  await users('PUT', { email: 'ada@example.org', role: 'analyst' });
  expect(await first.stop()).toBe(0);
  const second = await up();
  expect(await users('GET')).toMatchObject({ email: 'ada@example.org', role: 'analyst' });
  expect(await second.stop()).toBe(0);
}, 60_000);

it('`demo --once` keeps every promise, leaves with 0, and leaves nothing behind', async () => {
  const temporary = fs.mkdtempSync(join(dataDir, 'tmp-'));
  const demo = start('demo', { TMPDIR: temporary }, '--once');
  expect(await demo.exited(), demo.output()).toBe(0);
  expect(demo.output().match(/^✓/gm)).toHaveLength(11);
  expect(fs.readdirSync(temporary)).toEqual([]);
}, 60_000);
