import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { freePort, startProgram } from '../../support/programs/processes.ts';

const servers: Server[] = [];
let database: Awaited<ReturnType<typeof freshDatabase>>;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(async () => {
  for (const server of servers) server.close();
  await database?.drop();
});

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function ready(...args: string[]) {
  const program = startProgram('cli/main.ts', {}, { args: ['ready', ...args] });
  return { code: await program.exited(), text: program.output() };
}

it('waits until a control plane has started, and exits with 0', async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const waiting = ready(url, '--wait', '100s');
  const controlPlane = startProgram('control-plane/main.ts', {
    DATABASE_URL: database.url,
    SALLYPORT_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    SALLYPORT_API_PORT: String(port),
  });
  try {
    const result = await waiting;
    expect(result, controlPlane.output()).toMatchObject({
      code: 0,
      text: expect.stringContaining(`${url} is ready.`),
    });
  } finally {
    await controlPlane.stop();
  }
});

it.each([
  [
    'the failed checks of a control plane',
    503,
    { ready: false, checks: [{ name: 'bus', ok: false }] },
    'the check bus failed',
  ],
  [
    'the reasons of a sidecar',
    503,
    { ready: false, code: 'x', reasons: ['No passports.'] },
    'No passports.',
  ],
  ['a brief answer', 503, { ready: false, checks: [] }, 'its log has one'],
  ['a body that contradicts its status', 503, { ready: true, checks: [] }, 'its log has one'],
  ['another JSON service', 200, { status: 'ok' }, 'another program answers'],
])('exits with 1 and reports %s', async (_case, status, body, expected) => {
  const url = await serve((req, res) => {
    const isAsked = req.url === '/readyz';
    res.writeHead(isAsked ? status : 404).end(JSON.stringify(body));
  });
  expect(await ready(url)).toMatchObject({ code: 1, text: expect.stringContaining(expected) });
});

it('exits with 1 for a page that is not JSON, a redirect, and a closed port', async () => {
  const page = await serve((_req, res) => res.end('<html>'));
  expect(await ready(page)).toMatchObject({
    code: 1,
    text: expect.stringContaining('another program'),
  });
  const redirect = await serve((_req, res) => res.writeHead(302, { location: page }).end());
  expect((await ready(redirect)).code).toBe(1);
  const closed = await ready(`http://127.0.0.1:${await freePort()}`);
  expect(closed).toMatchObject({ code: 1, text: expect.stringContaining('ECONNREFUSED') });
});

it('refuses an address without scheme', async () => {
  expect(await ready('127.0.0.1:8080')).toMatchObject({
    code: 1,
    text: expect.stringContaining('must begin with http://'),
  });
});
