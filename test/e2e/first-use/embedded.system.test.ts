import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import {
  answersOk,
  freePort,
  type Program,
  startProgram,
  until,
} from '../../support/programs/processes.ts';

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

it('`up` serves on both ports, exits with 0 on SIGTERM, and keeps its state across a restart', async () => {
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

it('`up` starts even if its agent is disabled, reports this, and is ready when the agent is enabled', async () => {
  const folder = fs.mkdtempSync(join(dataDir, 'disabled-'));
  const [api, proxy, admin] = [await freePort(), await freePort(), await freePort()];
  const env = {
    SALLYPORT_DATA_DIR: folder,
    SALLYPORT_API_PORT: String(api),
    SALLYPORT_PROXY_PORT: String(proxy),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin),
  };
  const up = async (greeting = 'Sallyport is ready.') => {
    const program = start('up', env);
    await until('it is up', () => program.output().includes(greeting), 240_000);
    return program;
  };
  const setAgent = async (disabled: boolean) => {
    const key = fs.readFileSync(join(folder, 'bootstrap-key'), 'utf8').trim();
    const response = await fetch(`http://127.0.0.1:${api}/api/v1/agents/1`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ disabled }),
    });
    expect(response.status).toBe(200);
  };
  const first = await up();
  await setAgent(true);
  expect(await first.stop()).toBe(0);
  const second = await up('Sallyport runs, but its sidecar refuses every call. agent.disabled:');
  await until('the cause is logged', () => second.output().includes('agent.disabled: agent 1'));
  await setAgent(false);
  await until('it is ready', () => answersOk(`http://127.0.0.1:${admin}/readyz`));
  expect(await second.stop()).toBe(0);
}, 600_000);

it('`up` prints a line for each decision, and other commands find the instance by its data directory', async () => {
  const folder = fs.mkdtempSync(join(dataDir, 'found-'));
  const [api, proxy, admin] = [await freePort(), await freePort(), await freePort()];
  const where = { SALLYPORT_DATA_DIR: folder };
  const ports = {
    SALLYPORT_API_PORT: String(api),
    SALLYPORT_PROXY_PORT: String(proxy),
    SALLYPORT_PROXY_ADMIN_PORT: String(admin),
  };
  const command = async (args: readonly string[], env: Record<string, string> = where) => {
    const [name = '', ...rest] = args;
    const program = start(name, { ...env, HOME: folder }, ...rest);
    return { code: await program.exited(), output: program.output() };
  };
  const up = start('up', { ...where, ...ports });
  await until('it is ready', () => up.output().includes('Sallyport is ready.'), 240_000);
  const key = fs.readFileSync(join(folder, 'bootstrap-key'), 'utf8').trim();
  expect(up.output()).toContain(
    `export SALLYPORT_CONTROL_PLANE_URL=http://127.0.0.1:${api} SALLYPORT_API_KEY=${key}`,
  );
  const agent = 'fetch("http://unbound.example/secret-path").then((r) => console.log(r.status))';
  const ran = await command(['run', '--', process.execPath, '-e', agent]);
  expect(ran).toEqual({ code: 0, output: '403\n' });
  await until('the decision is printed', () => up.output().includes('"reason_code"'));
  const line =
    up
      .output()
      .split('\n')
      .find((text) => text.includes('"reason_code"')) ?? '';
  expect(JSON.parse(line)).toMatchObject({ decision: 'deny', enforced: true });
  expect(line).not.toContain('secret-path');

  const found = await command(['approvals', 'list']);
  expect(found).toEqual({ code: 0, output: 'Nothing waits for a decision.\n' });
  const list = [
    process.execPath,
    resolve(import.meta.dirname, '../../../cli/main.ts'),
    'approvals',
    'list',
  ];
  const asAgent = await command(['run', '--', 'env', `SALLYPORT_DATA_DIR=${folder}`, ...list]);
  expect(asAgent).toMatchObject({ code: 1, output: expect.stringContaining('needs an API key') });
  const note = join(folder, 'running.json');
  fs.chmodSync(note, 0o644);
  expect((await command(['approvals', 'list'])).output).toContain(`chmod 600 ${note}`);
  fs.chmodSync(note, 0o600);
  const stale = fs.readFileSync(note);
  expect(await up.stop()).toBe(0);
  expect(fs.existsSync(note)).toBe(false);
  fs.writeFileSync(note, stale, { mode: 0o600 });
  expect((await command(['approvals', 'list'])).output).toContain('needs an API key');
  // The operating system may give the pid of an ended process to another process.
  const reused = { ...JSON.parse(stale.toString()), pid: process.pid };
  fs.writeFileSync(note, JSON.stringify(reused));
  expect((await command(['approvals', 'list'])).output).toContain('needs an API key');
}, 600_000);

it('`npm start -- --quiet` decides calls and prints no line for them', async () => {
  const { scripts } = JSON.parse(
    fs.readFileSync(resolve(import.meta.dirname, '../../../package.json'), 'utf8'),
  ) as { readonly scripts: Readonly<Record<string, string>> };
  // npm appends the arguments after `--` to the script.
  expect(scripts.start).toMatch(/cli\/main\.ts up$/);
  const folder = fs.mkdtempSync(join(dataDir, 'quiet-'));
  const where = { SALLYPORT_DATA_DIR: folder };
  const ports = {
    SALLYPORT_API_PORT: String(await freePort()),
    SALLYPORT_PROXY_PORT: String(await freePort()),
    SALLYPORT_PROXY_ADMIN_PORT: String(await freePort()),
  };
  const up = start('up', { ...where, ...ports }, '--quiet');
  await until('it is ready', () => up.output().includes('Sallyport is ready.'), 240_000);
  const agent = 'fetch("http://unbound.example/").then((r) => console.log(r.status))';
  const ran = start('run', { ...where, HOME: folder }, '--', process.execPath, '-e', agent);
  expect([await ran.exited(), ran.output()]).toEqual([0, '403\n']);
  // The output is complete after the exit.
  expect(await up.stop()).toBe(0);
  expect(up.output()).not.toMatch(/reason_code|unbound\.example|policy\.no_match/);
}, 600_000);

it('`demo --once` passes every check, exits with 0, and leaves no files', async () => {
  const temporary = fs.mkdtempSync(join(dataDir, 'tmp-'));
  const demo = start('demo', { TMPDIR: temporary }, '--once');
  expect(await demo.exited(), demo.output()).toBe(0);
  expect(demo.output().match(/^✓/gm)).toHaveLength(11);
  expect(fs.readdirSync(temporary)).toEqual([]);
}, 600_000);

it('`up` reports an invalid setting of the sidecar before it creates a database', async () => {
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
