import { connect } from 'node:net';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { startProbeApi } from './probe-api.ts';

const { api, key, close } = await startProbeApi();
afterAll(close);

const post = (body: unknown, headers: Record<string, string> = {}) =>
  api.send('POST', '/api/v1/probe/echo', { key, body, headers });

/** Sends bytes unchanged and returns the whole response. */
async function raw(bytes: string | Buffer): Promise<string> {
  const socket = connect(Number(new URL(api.origin).port), '127.0.0.1');
  socket.write(bytes);
  return readAll(socket);
}

describe('a request body', () => {
  it.each([
    ['broken JSON', '{"tool":', 'args.schema_invalid', 'not valid JSON'],
    ['an empty body', undefined, 'args.schema_invalid', 'A JSON body is required'],
    ['an array', [1], 'args.schema_invalid', 'body: '],
    ['a missing field', {}, 'args.schema_invalid', 'tool: '],
    ['a value outside an enum', { tool: 'x', mode: 'loose' }, 'args.schema_invalid', 'mode: '],
    [
      'a wrong nested field',
      { tool: 'x', list: [{ name: 'a' }, {}] },
      'args.schema_invalid',
      'list[1].name: ',
    ],
    [
      'a __proto__ key',
      '{"tool":"x","args":{"__proto__":{"admin":true}}}',
      'args.schema_invalid',
      'body.args: ',
    ],
    [
      'an integer above the safe range',
      '{"tool":"x","args":{"n":12345678901234567890}}',
      'args.number_unsafe',
      'cannot be represented exactly',
    ],
    [
      'a number that overflows to infinity',
      '{"tool":"x","args":{"n":1e999}}',
      'args.number_unsafe',
      'cannot be represented exactly',
    ],
    ['an unpaired surrogate', '{"tool":"\\ud800"}', 'args.encoding_invalid', 'surrogate pair'],
    [
      'an unpaired surrogate in a name',
      '{"tool":"x","args":{"\\ud800":1}}',
      'args.encoding_invalid',
      'surrogate pair',
    ],
    ['U+0000', '{"tool":"a\\u0000b"}', 'args.encoding_invalid', 'body.tool: '],
    [
      '65 levels of nesting',
      `{"tool":"x","args":{"a":${'['.repeat(63)}${']'.repeat(63)}}}`,
      'args.too_deep',
      '64 levels',
    ],
    ['a million levels of nesting', '['.repeat(1_000_000), 'args.too_deep', '64 levels'],
    ['a duplicate key', '{"tool":"x","tool":"y"}', 'args.duplicate_key', 'same key twice'],
  ])('is refused with an explanation: %s', async (_what, body, code, text) => {
    const answer = await post(body);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, code]);
    expect(answer.body?.error).toContain(text);
  });

  it('is refused with an error that lists the allowed values if a value is outside an enum', async () => {
    const answer = await post({ tool: 'x', mode: 'loose' });
    expect(answer.body?.error).toMatch(/"enforce".*"strict"/);
  });

  it('is not quoted in the error', async () => {
    const answer = await post({ tool: { password: 'hunter2' }, mode: 'hunter2' });
    expect(answer.text).not.toContain('hunter2');
  });

  it('may have 64 levels of nesting', async () => {
    const answer = await post(`{"tool":"x","args":{"a":${'['.repeat(62)}${']'.repeat(62)}}}`);
    expect(answer.status).toBe(200);
  });

  it('may have members named like those of Object.prototype', async () => {
    const args = '{"a":2,"constructor":{"prototype":1},"toString":3}';
    const answer = await post(`{"tool":"x","args":${args}}`);
    expect(answer.text).toContain('"args":{"a":2,"constructor":{"prototype":1},"toString":3}');
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  });

  it('is refused if it is not UTF-8', async () => {
    const answer = await post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]));
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'args.encoding_invalid']);
  });

  it('is refused if it is compressed or its content type is not JSON', async () => {
    const typed = await post('{"tool":"x"}', { 'content-type': 'text/plain' });
    expect([typed.status, typed.body?.reason_code]).toEqual([400, 'request.invalid']);
    const packed = await post('{"tool":"x"}', { 'content-encoding': 'gzip' });
    expect([packed.status, packed.body?.reason_code]).toEqual([400, 'args.encoding_invalid']);
  });

  it('is refused above 1 MiB, with and without Content-Length', async () => {
    const announced = await post(`{"tool":"${'x'.repeat(1_048_576)}"}`);
    expect([announced.status, announced.body?.reason_code]).toEqual([
      413,
      'request.body_too_large',
    ]);
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
    const head = `POST /api/v1/probe/echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
    const answer = await raw(`${head}${chunk.repeat(20)}0\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
  });

  it('may have exactly 1 MiB', async () => {
    const answer = await post(`{"tool":"${'x'.repeat(1_048_576 - 11)}"}`);
    expect(answer.status).toBe(200);
  });

  it('is refused if the operation expects no body, unless it is an empty object', async () => {
    const full = await api.send('POST', '/api/v1/probe/control', { key, body: { a: 1 } });
    expect([full.status, full.body?.reason_code]).toEqual([400, 'request.invalid']);
    const empty = await api.send('POST', '/api/v1/probe/control', { key, body: {} });
    expect(empty.status).toBe(200);
  });

  it('is parsed as a form if the operation declares a form, and a repeated field is refused', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const form = (body: string) => api.send('POST', '/api/v1/probe/form', { body, headers });
    expect((await form('client_id=a%20b')).body).toEqual({ client_id: 'a b' });
    expect((await form('client_id=a&client_id=b')).body?.reason_code).toBe('args.ambiguous');
    const json = await api.send('POST', '/api/v1/probe/form', { body: { client_id: 'c' } });
    expect(json.body).toEqual({ client_id: 'c' });
  });

  it('is passed unchanged to operations with raw bodies, within the size limit of the operation', async () => {
    const answer = await api.send('POST', '/api/v1/probe/open', { body: 'a=%7B&b' });
    expect(answer.body).toEqual({ raw: 'a=%7B&b' });
    const large = await api.send('POST', '/api/v1/probe/open', { body: 'x'.repeat(101) });
    expect(large.status).toBe(413);
  });
});

describe('a path or a query', () => {
  const get = (path: string) => api.send('GET', path, { key });

  it('is refused if a query parameter is unknown, repeated or malformed', async () => {
    const unknown = await get('/api/v1/probe/search?limit=1&tenant=other');
    expect([unknown.status, unknown.body?.reason_code]).toEqual([400, 'request.invalid']);
    expect(unknown.body?.error).toContain('tenant');
    const twice = await get('/api/v1/probe/search?limit=1&limit=2');
    expect([twice.status, twice.body?.reason_code]).toEqual([400, 'args.ambiguous']);
    const wrong = await get('/api/v1/probe/search?limit=11');
    expect(wrong.body?.error).toContain('limit: ');
    expect((await get('/api/v1/probe/search?q=%00')).status).toBe(400);
  });

  it('is refused if it has a query string and the operation declares no query parameter', async () => {
    const answer = await get('/api/v1/probe/abc?x=1');
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'request.invalid']);
  });

  it('is matched against literal paths before paths with parameters', async () => {
    expect((await get('/api/v1/probe/search?limit=3')).body).toEqual({ limit: 3 });
    expect((await get('/api/v1/probe/other')).body).toEqual({ id: 'other' });
  });

  it('has its parameters percent-decoded once', async () => {
    expect((await get('/api/v1/probe/a%2Fb%2525')).body).toEqual({ id: 'a/b%25' });
  });

  it.each([
    ['/api/v1/nothing', 404, 'request.not_found'],
    ['/v1/probe/search', 404, 'request.not_found'],
    ['/api/v1/PROBE/search', 404, 'request.not_found'],
    ['/api/v1/probe/search/', 404, 'request.not_found'],
    ['/api/v1/probe/%zz', 400, 'request.invalid'],
    ['/api/v1/probe/%00', 400, 'args.encoding_invalid'],
  ])('%s gets a JSON response with status %i', async (path, status, code) => {
    const answer = await get(path);
    expect([answer.status, answer.body?.reason_code]).toEqual([status, code]);
  });

  it('gets 405 and the allowed methods for a wrong method', async () => {
    const answer = await api.send('DELETE', '/api/v1/probe/search', { key });
    expect([answer.status, answer.body?.reason_code]).toEqual([405, 'request.method_not_allowed']);
    expect(answer.headers.get('allow')).toBe('GET, HEAD');
    const options = await api.send('OPTIONS', '/api/v1/probe/echo', {});
    expect([options.status, options.headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('gets the same response for HEAD as for GET, but without a body', async () => {
    const answer = await api.send('HEAD', '/api/v1/probe/search', { key });
    expect([answer.status, answer.text]).toEqual([200, '']);
  });
});
