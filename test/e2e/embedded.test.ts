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
  const call = async (method: string, path: string, body?: object) => {
    const key = fs.readFileSync(join(dataDir, 'bootstrap-key'), 'utf8').trim();
    const response = await fetch(`http://127.0.0.1:${api}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  };
  const starts = async () => {
    const { events } = (await call('GET', 'evidence/events')) as {
      readonly events: readonly { readonly type: string }[];
    };
    return events.filter(({ type }) => type === 'sidecar.started').length;
  };
  const first = await up();
  await call('PUT', 'users/ada', { email: 'ada@example.org', role: 'analyst' });
  await until('its start is in the ledger', async () => (await starts()) === 1);
  expect(await first.stop()).toBe(0);
  const second = await up();
  expect(await call('GET', 'users/ada')).toMatchObject({
    email: 'ada@example.org',
    role: 'analyst',
  });
  await until('its second start is, too', async () => (await starts()) === 2);
  expect(await second.stop()).toBe(0);
  expect(second.output()).not.toContain('evidence');
}, 60_000);

it('`demo --once` keeps every promise, leaves with 0, and leaves nothing behind', async () => {
  const temporary = fs.mkdtempSync(join(dataDir, 'tmp-'));
  const demo = start('demo', { TMPDIR: temporary }, '--once');
  expect(await demo.exited(), demo.output()).toBe(0);
  expect(demo.output().match(/^✓/gm)).toHaveLength(11);
  expect(fs.readdirSync(temporary)).toEqual([]);
}, 60_000);

it('`up` tells of a wrong setting of the sidecar before it makes a database', async () => {
  const fresh = fs.mkdtempSync(join(dataDir, 'fresh-'));
  const wrong = [
    ['SALLYPORT_MAX_HEADERS', '5', 'must be a whole number of headers from 10 to 2000'],
    ['SALLYPORT_ALLOW_PRIVATE', '10.0.0.0/99', '10.0.0.0/99 is not a CIDR range such as'],
  ] as const;
  for (const [name, value, message] of wrong) {
    const program = start('up', { SALLYPORT_DATA_DIR: fresh, [name]: value });
    expect(await program.exited()).toBe(1);
    expect(program.output()).toContain(`sallyport: ${name}: ${message}`);
    expect(fs.readdirSync(fresh)).toEqual(['bootstrap-key']);
  }
});
