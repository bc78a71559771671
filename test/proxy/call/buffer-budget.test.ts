import { once } from 'node:events';
import { createServer, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BufferBudget } from '../../../proxy/call/buffer-budget.ts';
import { readBody } from '../../../proxy/recognise/read-body.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { until } from '../../support/base/until.ts';

const bytesMax = 100_000;
const budget = new BufferBudget(bytesMax);
const held: ServerResponse[] = [];
const server = createServer(async (req, res) => {
  try {
    await readBody(req, bytesMax * 10, budget.open(res));
    if (req.url === '/hold') held.push(res);
    else res.end('read');
  } catch (error) {
    res.setHeader('connection', 'close');
    res.end(error instanceof GatewayError ? error.code : 'unexpected');
  }
});
let port: number;
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function send(path: string, bytes: number, whole = true) {
  const req = request({ port, path, method: 'POST', headers: { 'content-length': bytes } });
  req.on('error', () => {});
  const answer = new Promise<string>((resolve) => {
    req.on('response', async (res) => {
      let text = '';
      for await (const chunk of res) text += chunk;
      resolve(text);
    });
  });
  if (whole) req.end(Buffer.alloc(bytes));
  else req.write(Buffer.alloc(bytes - 1));
  return { req, answer };
}

it('the body reader refuses a body that exceeds the memory budget of all calls, but accepts it after memory is released', async () => {
  const first = send('/hold', 80_000);
  await until(() => held.length === 1);
  expect(budget.used).toBe(80_000);
  expect(await send('/', 30_000).answer).toBe('proxy.buffers_full');
  expect(await send('/', 20_000).answer).toBe('read');
  await until(() => budget.used === 80_000);
  held[0]?.end('done');
  expect(await first.answer).toBe('done');
  await until(() => budget.used === 0);
  expect(await send('/', 30_000).answer).toBe('read');
});

it('the body reader releases the memory of a call when its client disconnects, even if the body is incomplete or the call is held', async () => {
  const partial = send('/', 50_000, false);
  await until(() => budget.used === 49_999);
  partial.req.destroy();
  await until(() => budget.used === 0);
  const whole = send('/hold', 50_000);
  await until(() => budget.used === 50_000);
  whole.req.destroy();
  await until(() => budget.used === 0);
});
