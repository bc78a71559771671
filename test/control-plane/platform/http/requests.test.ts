import { connect } from 'node:net';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { startProbeApi } from './probe-api.ts';

const { api, key, close } = await startProbeApi();
afterAll(close);

const post = (body: unknown, headers: Record<string, string> = {}) =>
  api.send('POST', '/api/v1/probe/echo', { key, body, headers });

/** Sends bytes as they are and returns all that comes back. */
async function raw(bytes: string | Buffer): Promise<string> {
  const socket = connect(Number(new URL(api.origin).port), '127.0.0.1');
  socket.write(bytes);
  return readAll(socket);
}

describe('bodies', () => {
  it.each([
    ['broken JSON', '{"tool":', 'args.schema_invalid', 'not valid JSON'],
    ['no body', undefined, 'args.schema_invalid', 'A JSON body is required'],
    ['an array', [1], 'args.schema_invalid', 'body: '],
    ['a missing field', {}, 'args.schema_invalid', 'tool: '],
    ['a word that is not allowed', { tool: 'x', mode: 'loose' }, 'args.schema_invalid', 'mode: '],
    [
      'a wrong field deep down',
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
      'a whole number that cannot be kept',
      '{"tool":"x","args":{"n":12345678901234567890}}',
      'args.number_unsafe',
      'cannot be represented exactly',
    ],
    [
      'a number that is infinite',
      '{"tool":"x","args":{"n":1e999}}',
      'args.number_unsafe',
      'cannot be represented exactly',
    ],
    ['half a surrogate pair', '{"tool":"\\ud800"}', 'args.encoding_invalid', 'surrogate pair'],
    [
      'half a surrogate pair in a name',
      '{"tool":"x","args":{"\\ud800":1}}',
      'args.encoding_invalid',
      'surrogate pair',
    ],
    ['U+0000', '{"tool":"a\\u0000b"}', 'args.encoding_invalid', 'body.tool: '],
    [
      '65 levels',
      `{"tool":"x","args":{"a":${'['.repeat(63)}${']'.repeat(63)}}}`,
      'args.too_deep',
      '64 levels',
    ],
    ['a million levels', '['.repeat(1_000_000), 'args.too_deep', '64 levels'],
    ['a key given twice', '{"tool":"x","tool":"y"}', 'args.duplicate_key', 'same key twice'],
  ])('refuses %s and says what is wrong', async (_what, body, code, text) => {
    const answer = await post(body);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, code]);
    expect(answer.body?.error).toContain(text);
  });

  it('names the allowed values of an enum', async () => {
    const answer = await post({ tool: 'x', mode: 'loose' });
    expect(answer.body?.error).toMatch(/"enforce".*"strict"/);
  });

  it('never repeats the values it refuses', async () => {
    const answer = await post({ tool: { password: 'hunter2' }, mode: 'hunter2' });
    expect(answer.text).not.toContain('hunter2');
  });

  it('takes 64 levels', async () => {
    const answer = await post(`{"tool":"x","args":{"a":${'['.repeat(62)}${']'.repeat(62)}}}`);
    expect(answer.status).toBe(200);
  });

  it('accepts names of members of Object.prototype as mere names', async () => {
    const args = '{"a":2,"constructor":{"prototype":1},"toString":3}';
    const answer = await post(`{"tool":"x","args":${args}}`);
    expect(answer.text).toContain('"args":{"a":2,"constructor":{"prototype":1},"toString":3}');
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  });

  it('refuses bytes that are not UTF-8', async () => {
    const answer = await post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]));
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'args.encoding_invalid']);
  });

  it('refuses a content type that is not JSON, and a compressed body', async () => {
    const typed = await post('{"tool":"x"}', { 'content-type': 'text/plain' });
    expect([typed.status, typed.body?.reason_code]).toEqual([400, 'request.invalid']);
    const packed = await post('{"tool":"x"}', { 'content-encoding': 'gzip' });
    expect([packed.status, packed.body?.reason_code]).toEqual([400, 'args.encoding_invalid']);
  });

  it('refuses more than 1 MiB, announced or not', async () => {
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

  it('takes a body of exactly 1 MiB', async () => {
    const answer = await post(`{"tool":"${'x'.repeat(1_048_576 - 11)}"}`);
    expect(answer.status).toBe(200);
  });

  it('refuses a body where the operation has none, and accepts an empty object', async () => {
    const full = await api.send('POST', '/api/v1/probe/control', { key, body: { a: 1 } });
    expect([full.status, full.body?.reason_code]).toEqual([400, 'request.invalid']);
    const empty = await api.send('POST', '/api/v1/probe/control', { key, body: {} });
    expect(empty.status).toBe(200);
  });

  it('reads a form where the operation takes one, and refuses a field given twice', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const form = (body: string) => api.send('POST', '/api/v1/probe/form', { body, headers });
    expect((await form('client_id=a%20b')).body).toEqual({ client_id: 'a b' });
    expect((await form('client_id=a&client_id=b')).body?.reason_code).toBe('args.ambiguous');
    const json = await api.send('POST', '/api/v1/probe/form', { body: { client_id: 'c' } });
    expect(json.body).toEqual({ client_id: 'c' });
  });

  it('hands a raw body over as it came, within the operation’s own limit', async () => {
    const answer = await api.send('POST', '/api/v1/probe/open', { body: 'a=%7B&b' });
    expect(answer.body).toEqual({ raw: 'a=%7B&b' });
    const large = await api.send('POST', '/api/v1/probe/open', { body: 'x'.repeat(101) });
    expect(large.status).toBe(413);
  });
});

describe('queries and paths', () => {
  const get = (path: string) => api.send('GET', path, { key });

  it('refuses an unknown query parameter, a repeated one, and a malformed value', async () => {
    const unknown = await get('/api/v1/probe/search?limit=1&tenant=other');
    expect([unknown.status, unknown.body?.reason_code]).toEqual([400, 'request.invalid']);
    expect(unknown.body?.error).toContain('tenant');
    const twice = await get('/api/v1/probe/search?limit=1&limit=2');
    expect([twice.status, twice.body?.reason_code]).toEqual([400, 'args.ambiguous']);
    const wrong = await get('/api/v1/probe/search?limit=11');
    expect(wrong.body?.error).toContain('limit: ');
    expect((await get('/api/v1/probe/search?q=%00')).status).toBe(400);
  });

  it('refuses any query where none is declared', async () => {
    const answer = await get('/api/v1/probe/abc?x=1');
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'request.invalid']);
  });

  it('matches paths without parameters before paths with them', async () => {
    expect((await get('/api/v1/probe/search?limit=3')).body).toEqual({ limit: 3 });
    expect((await get('/api/v1/probe/other')).body).toEqual({ id: 'other' });
  });

  it('decodes a path parameter once', async () => {
    expect((await get('/api/v1/probe/a%2Fb%2525')).body).toEqual({ id: 'a/b%25' });
  });

  it.each([
    ['/api/v1/nothing', 404, 'request.not_found'],
    ['/v1/probe/search', 404, 'request.not_found'],
    ['/api/v1/PROBE/search', 404, 'request.not_found'],
    ['/api/v1/probe/search/', 404, 'request.not_found'],
    ['/api/v1/probe/%zz', 400, 'request.invalid'],
    ['/api/v1/probe/%00', 400, 'args.encoding_invalid'],
  ])('answers %s with %i in JSON', async (path, status, code) => {
    const answer = await get(path);
    expect([answer.status, answer.body?.reason_code]).toEqual([status, code]);
  });

  it('answers a wrong method with 405 and the methods that work', async () => {
    const answer = await api.send('DELETE', '/api/v1/probe/search', { key });
    expect([answer.status, answer.body?.reason_code]).toEqual([405, 'request.method_not_allowed']);
    expect(answer.headers.get('allow')).toBe('GET, HEAD');
    const options = await api.send('OPTIONS', '/api/v1/probe/echo', {});
    expect([options.status, options.headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('answers HEAD as GET, without a body', async () => {
    const answer = await api.send('HEAD', '/api/v1/probe/search', { key });
    expect([answer.status, answer.text]).toEqual([200, '']);
  });
});
