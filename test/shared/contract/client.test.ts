import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../../shared/contract/base/client.ts';
import { operation } from '../../../shared/contract/base/operation.ts';
import { integerId } from '../../../shared/contract/base/schemas.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

const shared = { tag: 'T', summary: 'T', auth: 'bearer', permission: 'read', errors: [] } as const;
const update = operation({
  ...shared,
  id: 'update',
  method: 'PUT',
  path: '/v1/things/{id}/parts/{name}',
  params: z.object({ id: integerId, name: z.string() }),
  query: z.object({ dry: z.string().optional() }),
  body: z.object({ n: z.number() }),
  success: { status: 200, description: 'Ok.', schema: z.object({ ok: z.boolean() }) },
});
const list = operation({
  ...shared,
  id: 'list',
  method: 'GET',
  path: '/v1/things',
  success: { status: 200, description: 'Ok.', schema: z.object({ ok: z.boolean() }) },
});

let answer: (req: IncomingMessage, res: ServerResponse) => void = () => undefined;
const seen: { method?: string; url?: string; authorization?: string; body: string }[] = [];
const server = createServer((req, res) => {
  let body = '';
  req.on('data', (chunk) => {
    body += chunk;
  });
  req.on('end', () => {
    const { method = '', url = '' } = req;
    seen.push({ method, url, authorization: req.headers.authorization ?? '', body });
    answer(req, res);
  });
});
let baseUrl: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`;
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const reply = (status: number, body: string, headers: Record<string, string> = {}) => {
  answer = (_req, res) => res.writeHead(status, headers).end(body);
};
const client = (more: object = {}) =>
  createClient({ baseUrl, authorization: () => 'Bearer apk_1', ...more });

async function failure(promise: Promise<unknown>): Promise<GatewayError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof GatewayError) return error;
  throw new Error('it did not fail as it should', { cause: error });
}

it('the client sends path, query, body and authorization as declared by the operation', async () => {
  reply(200, '{"ok":true,"new":1}');
  const input = { params: { id: 7, name: 'a/b ?' }, query: { dry: 'yes' }, body: { n: 1 } };
  expect(await client().call(update, input)).toEqual({ ok: true });
  expect(seen.at(-1)).toEqual({
    method: 'PUT',
    url: '/api/v1/things/7/parts/a%2Fb%20%3F?dry=yes',
    authorization: 'Bearer apk_1',
    body: '{"n":1}',
  });
});

it('the client obtains its authorization again for every call', async () => {
  reply(200, '{"ok":true}');
  let count = 0;
  const fresh = client({ authorization: async () => `Bearer ${++count}` });
  await fresh.call(list);
  await fresh.call(list);
  expect(seen.slice(-2).map(({ authorization }) => authorization)).toEqual([
    'Bearer 1',
    'Bearer 2',
  ]);
});

it.each(['', '.', '..'])('the client refuses the path parameter %j', async (name) => {
  const before = seen.length;
  const input = { params: { id: 7, name }, body: { n: 1 } };
  expect((await failure(client().call(update, input))).code).toBe('request.invalid');
  expect(seen).toHaveLength(before);
});

it('the client throws the error in the response with its code, text, status and details', async () => {
  const body = { error: 'Too much.', reason_code: 'plan.cap_reached', min_tier: 'team' };
  reply(402, JSON.stringify(body), { 'retry-after': '7' });
  const error = await failure(client().call(list));
  expect([error.code, error.message]).toEqual(['plan.cap_reached', 'Too much.']);
  expect(error.details).toMatchObject({ min_tier: 'team', status: 402, retryAfterSeconds: 7 });
});

it.each([
  [401, 'auth.invalid_key'],
  [403, 'auth.insufficient_permission'],
  [404, 'request.not_found'],
  [429, 'rate_limited'],
  [503, 'store.unavailable'],
  [418, 'request.invalid'],
  [500, 'internal.unexpected'],
  [204, 'internal.unexpected'],
])(
  'the client maps the status %i of a response without an error body to an error code',
  async (status, code) => {
    reply(status, status === 204 ? '' : '<html>');
    expect((await failure(client().call(list))).code).toBe(code);
  },
);

it.each(['{"ok":"yes"}', '{}', '[]', 'null', '', 'not json'])(
  'the client refuses a response that does not match the contract: %j',
  async (body) => {
    reply(200, body);
    expect((await failure(client().call(list))).code).toBe('internal.unexpected');
  },
);

it('the client does not follow a redirect, because it would send its key to the target', async () => {
  reply(307, '', { location: `${baseUrl}/elsewhere` });
  const before = seen.length;
  await failure(client().call(list));
  expect(seen).toHaveLength(before + 1);
});

it('the client reports an unreachable, silent or interrupted server', async () => {
  const nobody = createClient({ baseUrl: 'http://127.0.0.1:1/api', authorization: () => '' });
  expect((await failure(nobody.call(list))).code).toBe('upstream.unreachable');
  answer = () => undefined;
  expect((await failure(client({ timeoutMs: 100 }).call(list))).code).toBe('upstream.timeout');
  answer = (_req, res) => {
    res.writeHead(200, { 'content-length': '100' });
    res.write('{"ok"', () => res.destroy());
  };
  expect((await failure(client().call(list))).code).toBe('upstream.unreachable');
});
