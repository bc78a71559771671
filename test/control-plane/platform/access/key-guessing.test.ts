import { connect } from 'node:net';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { generateApiKey } from '../../../../shared/crypto/api-key.ts';
import { startProbeApi } from '../http/probe-api.ts';

const { api, key, close } = await startProbeApi(undefined, 5);
afterAll(close);

async function raw(lines: readonly string[]): Promise<string> {
  const socket = connect(Number(new URL(api.origin).port), '127.0.0.1');
  const body = '{"tool":"x"}';
  const head = [
    'POST /api/v1/probe/echo HTTP/1.1',
    'Host: localhost',
    'Connection: close',
    ...lines,
    `Content-Length: ${body.length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  return readAll(socket);
}

describe('a header for authentication or body parsing', () => {
  const authorization = `Authorization: Bearer ${key}`;
  const json = 'Content-Type: application/json';

  it('is accepted if it occurs once', async () => {
    expect(await raw([authorization, json])).toMatch(/^HTTP\/1\.1 200 /);
  });

  it.each([
    ['Authorization, the valid one first', [authorization, 'authorization: Bearer x', json]],
    ['Authorization, the valid one last', ['AUTHORIZATION: Bearer x', authorization, json]],
    ['Authorization with the same value', [authorization, authorization, json]],
    ['Content-Type', [authorization, json, 'content-type: text/plain']],
    ['Host', [authorization, json, 'host: other']],
    [
      'Content-Encoding',
      [authorization, json, 'content-encoding: identity', 'Content-Encoding: identity'],
    ],
  ])('is refused if repeated: %s', async (_name, lines) => {
    const answer = await raw(lines);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('"reason_code":"request.header_repeated"');
  });
});

describe('an address that tries many API keys', () => {
  it('gets 429 for invalid keys once its budget for them is exhausted, but a valid key is still accepted', async () => {
    const call = (token: string) =>
      api.send('POST', '/api/v1/probe/echo', { key: token, body: { tool: 'x' } });
    expect((await call(key)).status).toBe(200);
    const answers = [];
    for (let n = 0; n < 8; n++) answers.push(await call(generateApiKey()));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.slice(0, 4)).toEqual([401, 401, 401, 401]);
    expect(statuses.slice(-3)).toEqual([429, 429, 429]);
    const last = answers.at(-1);
    expect(last?.body?.reason_code).toBe('rate_limited');
    expect(Number(last?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await call('x'.repeat(5_000))).status).toBe(429);
    expect((await call(key)).status).toBe(200);
  });
});
