import { connect } from 'node:net';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { openMemoryBus } from '../../../shared/bus/memory.ts';
import { GatewayError } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/log.ts';
import { startApi } from '../../support/api.ts';
import { probeRoutes } from '../../support/probe-routes.ts';
import { testServices } from '../../support/services.ts';
import { until } from '../../support/until.ts';

interface Line {
  readonly level: keyof Log;
  readonly fields: Record<string, unknown>;
}

const lines: Line[] = [];
const record = (level: keyof Log) => (fields: object) => {
  lines.push({ level, fields: { ...fields } });
};
const log: Log = {
  debug: record('debug'),
  info: record('info'),
  warn: record('warn'),
  error: record('error'),
};

let failure: unknown;
let streamed: (signal: AbortSignal) => AsyncIterable<string>;
const services = await testServices({ log });
const api = await startApi(
  probeRoutes({ fail: () => failure, stream: (signal) => streamed(signal) }),
  services,
  { limits: { requestsPerMinute: { tenant: 5, control: 3, sidecar: 5, address: 50 } } },
);
const unlimited = await startApi(
  probeRoutes({ fail: () => failure, stream: (signal) => streamed(signal) }),
  services,
  { limits: { requestsPerMinute: { tenant: 1e6, control: 1e6, sidecar: 1e6, address: 1e6 } } },
);
const key = await api.key();

afterAll(async () => {
  await api.close();
  await unlimited.close();
  await services.close();
});

beforeEach(() => {
  lines.length = 0;
});

const post = (body: unknown, headers: Record<string, string> = {}) =>
  unlimited.send('POST', '/api/v1/probe/echo', { key, body, headers });

/** Sends bytes as they are and returns all that comes back. */
async function raw(bytes: string | Buffer): Promise<string> {
  const socket = connect(Number(new URL(unlimited.origin).port), '127.0.0.1');
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
      'body.args.n: ',
    ],
    [
      'a number that is infinite',
      '{"tool":"x","args":{"n":1e999}}',
      'args.number_unsafe',
      'body.args.n: ',
    ],
    ['half a surrogate pair', '{"tool":"\\ud800"}', 'args.encoding_invalid', 'body.tool: '],
    [
      'half a surrogate pair in a name',
      '{"tool":"x","args":{"\\ud800":1}}',
      'args.encoding_invalid',
      'body.args: ',
    ],
    ['U+0000', '{"tool":"a\\u0000b"}', 'args.encoding_invalid', 'body.tool: '],
    [
      '65 levels',
      `{"tool":"x","args":{"a":${'['.repeat(63)}${']'.repeat(63)}}}`,
      'args.too_deep',
      '64 levels',
    ],
    ['a million levels', '['.repeat(1_000_000), 'args.schema_invalid', 'not valid JSON'],
  ])('refuses %s and says where', async (_what, body, code, text) => {
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

  it('takes the last of two equal keys, and members of Object.prototype as mere names', async () => {
    const args = '{"a":1,"a":2,"constructor":{"prototype":1},"toString":3}';
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

  it('refuses a body where none is taken, and lets an empty object pass', async () => {
    const full = await unlimited.send('POST', '/api/v1/probe/control', { key, body: { a: 1 } });
    expect([full.status, full.body?.reason_code]).toEqual([400, 'args.schema_invalid']);
    const empty = await unlimited.send('POST', '/api/v1/probe/control', { key, body: {} });
    expect(empty.status).toBe(200);
  });

  it('reads a form where the operation takes one, and refuses a field given twice', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const form = (body: string) => unlimited.send('POST', '/api/v1/probe/form', { body, headers });
    expect((await form('client_id=a%20b')).body).toEqual({ client_id: 'a b' });
    expect((await form('client_id=a&client_id=b')).body?.reason_code).toBe('args.ambiguous');
    const json = await unlimited.send('POST', '/api/v1/probe/form', { body: { client_id: 'c' } });
    expect(json.body).toEqual({ client_id: 'c' });
  });

  it('hands a raw body over as it came, within the operation’s own limit', async () => {
    const answer = await unlimited.send('POST', '/api/v1/probe/open', { body: 'a=%7B&b' });
    expect(answer.body).toEqual({ raw: 'a=%7B&b' });
    const large = await unlimited.send('POST', '/api/v1/probe/open', { body: 'x'.repeat(101) });
    expect(large.status).toBe(413);
  });
});

describe('queries and paths', () => {
  const get = (path: string) => unlimited.send('GET', path, { key });

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
    const answer = await unlimited.send('DELETE', '/api/v1/probe/search', { key });
    expect([answer.status, answer.body?.reason_code]).toEqual([405, 'request.method_not_allowed']);
    expect(answer.headers.get('allow')).toBe('GET, HEAD');
    const options = await unlimited.send('OPTIONS', '/api/v1/probe/echo', {});
    expect([options.status, options.headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('answers HEAD as GET, without a body', async () => {
    const answer = await unlimited.send('HEAD', '/api/v1/probe/search', { key });
    expect([answer.status, answer.text]).toEqual([200, '']);
  });
});

describe('errors', () => {
  it('never shows what an unexpected error says, and logs its cause', async () => {
    failure = new Error('password=hunter2 at /srv/app');
    const answer = await unlimited.send('POST', '/api/v1/probe/failing', { key });
    expect([answer.status, answer.body]).toEqual([
      500,
      {
        error: 'Something unexpected happened; it was recorded.',
        reason_code: 'internal.unexpected',
      },
    ]);
    const line = lines.find(({ level }) => level === 'error');
    expect(line?.fields.err).toBe(failure);
  });

  it('answers with an error’s code, text and public details, which cannot replace either', async () => {
    const details = { feature: 'itsm', min_tier: 'enterprise', error: 'x', reason_code: 'y' };
    failure = new GatewayError('plan.feature_required', { message: 'No.', details, cause: 'why' });
    const answer = await unlimited.send('POST', '/api/v1/probe/failing', { key });
    expect(answer.status).toBe(402);
    expect(answer.body).toEqual({
      error: 'No.',
      reason_code: 'plan.feature_required',
      feature: 'itsm',
      min_tier: 'enterprise',
    });
  });

  it('says 503 store.unavailable, to be tried again, when the database is away', async () => {
    failure = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    const answer = await unlimited.send('POST', '/api/v1/probe/failing', { key });
    expect([answer.status, answer.body?.reason_code]).toEqual([503, 'store.unavailable']);
    expect(answer.headers.get('retry-after')).toBe('1');
  });
});

describe('every answer', () => {
  it('carries security headers, a request id and the trace context, and does not say what runs', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { traceparent, 'x-request-id': 'req-1' };
    const answer = await unlimited.send('GET', '/api/v1/probe/search', { key, headers });
    expect(answer.headers.get('traceparent')).toBe(traceparent);
    expect(answer.headers.get('x-request-id')).toBe('req-1');
    expect(answer.headers.get('x-powered-by')).toBeNull();
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
  });

  it('makes request id and trace context anew when what came is not one', async () => {
    const headers = { traceparent: '00-zz', 'x-request-id': 'a b\tc' };
    const answer = await unlimited.send('GET', '/api/v1/nothing', { headers });
    expect(answer.headers.get('traceparent')).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
  });

  it('is one line in the log, without key, query and body', async () => {
    await unlimited.send('GET', '/api/v1/probe/search?q=secret-query', { key });
    await until(() => lines.length > 0);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.fields).toMatchObject({
      operation: 'probeSearch',
      method: 'GET',
      path: '/api/v1/probe/search',
      status: 200,
      tenant: 'default',
      principal: 'owner',
    });
    expect(JSON.stringify(lines)).not.toContain('secret-query');
    expect(JSON.stringify(lines)).not.toContain(key);
  });

  it('leaves the log with the reason of a refusal', async () => {
    await unlimited.send('GET', '/api/v1/probe/search', {});
    await until(() => lines.length > 0);
    expect(lines[0]).toMatchObject({
      level: 'info',
      fields: { status: 401, reasonCode: 'auth.missing_key' },
    });
  });
});

describe('request budgets', () => {
  const ask = async (tenantId: string, path = '/api/v1/probe/search', role = 'owner' as const) =>
    api.send(path.endsWith('control') ? 'POST' : 'GET', path, {
      key: await api.key({ tenantId, role }),
    });

  it('refuse a tenant’s sixth request of five, and tell when to come back', async () => {
    for (let left = 4; left >= 0; left--) {
      const answer = await ask('noisy');
      expect(answer.status).toBe(200);
      expect(answer.headers.get('ratelimit')).toMatch(new RegExp(`^"tenant";r=${left};t=\\d+$`));
      expect(answer.headers.get('ratelimit-policy')).toBe('"tenant";q=5;w=60');
    }
    const refused = await ask('noisy');
    expect([refused.status, refused.body?.reason_code]).toEqual([429, 'rate_limited']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await ask('quiet')).status).toBe(200);
  });

  it('leave decisions and revocations their own, however noisy the tenant is', async () => {
    for (let request = 0; request < 6; request++) await ask('loud');
    expect((await ask('loud')).status).toBe(429);
    const control = await ask('loud', '/api/v1/probe/control');
    expect([control.status, control.headers.get('ratelimit')?.slice(0, 13)]).toEqual([
      200,
      '"control";r=2',
    ]);
  });

  it('are spent by refused requests too, but never the one for control', async () => {
    const agent = await api.key({ tenantId: 'knocking', role: 'agent' });
    const knock = () => api.send('POST', '/api/v1/probe/control', { key: agent });
    for (let request = 0; request < 5; request++) expect((await knock()).status).toBe(403);
    expect((await knock()).status).toBe(429);
    expect((await ask('knocking', '/api/v1/probe/control')).status).toBe(200);
  });

  it('begin anew after a minute', async () => {
    for (let request = 0; request < 6; request++) await ask('patient');
    services.clock.advance(60_001);
    expect((await ask('patient')).status).toBe(200);
  });

  it('are an operation’s own per address, where it says so', async () => {
    const ask = () => api.send('POST', '/api/v1/probe/open', { body: 'x' });
    const statuses = [await ask(), await ask(), await ask(), await ask()].map((a) => a.status);
    expect(statuses).toEqual([200, 200, 200, 429]);
  });
});

describe('other answers', () => {
  it('are bytes of the operation’s content type', async () => {
    const answer = await unlimited.send('GET', '/api/v1/probe/bytes', { key });
    expect(answer.headers.get('content-type')).toBe('application/zip');
    expect(answer.headers.get('x-checksum-sha256')).toBe('ab');
    expect(answer.text).toBe('PK');
  });

  it('are streams that end when the client goes', async () => {
    let ended = false;
    streamed = async function* (signal) {
      try {
        yield 'data: 1\n\n';
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      } finally {
        ended = true;
      }
    };
    const going = new AbortController();
    const response = await fetch(`${unlimited.origin}/api/v1/probe/stream`, {
      headers: { authorization: `Bearer ${key}` },
      signal: going.signal,
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 1\n\n');
    going.abort();
    await until(() => ended);
  });

  it('are cut, not finished, when a stream fails half-way', async () => {
    streamed = async function* () {
      yield 'data: 1\n\n';
      throw new Error('lost');
    };
    const answer = unlimited.send('GET', '/api/v1/probe/stream', { key });
    await expect(answer).rejects.toThrow();
    await until(() => lines.some(({ level }) => level === 'error'));
  });
});

describe('beside the API', () => {
  it('healthz says that the process lives, readyz that it can work', async () => {
    expect((await unlimited.send('GET', '/healthz')).body).toEqual({ status: 'ok' });
    const ready = await unlimited.send('GET', '/readyz');
    expect([ready.status, ready.body]).toEqual([
      200,
      {
        ready: true,
        checks: [
          { name: 'database', ok: true },
          { name: 'bus', ok: true },
          { name: 'migrations', ok: true },
        ],
      },
    ]);
  });

  it('readyz says 503 and which check failed, not why', async () => {
    const without = { ...services, bus: openMemoryBus({ clock: services.clock, log }) };
    await without.bus.close();
    const unready = await startApi([], without);
    const answer = await unready.send('GET', '/readyz');
    const checks = ['database', 'bus', 'migrations'].map((name) => ({ name, ok: name !== 'bus' }));
    expect([answer.status, answer.body]).toEqual([503, { ready: false, checks }]);
    await unready.close();
  });

  it('metrics count by operation and status class, and hold no path, tenant or key', async () => {
    await unlimited.send('GET', '/api/v1/probe/some-id', { key });
    const { text } = await unlimited.send('GET', '/metrics');
    expect(text).toMatch(
      /sallyport_http_requests_total\{operation="probeOne",status_class="2xx"\} \d+/,
    );
    expect(text).not.toContain('some-id');
    expect(text).not.toContain(key);
  });

  it('serves the contract as data and as a page that loads nothing from elsewhere', async () => {
    const document = await unlimited.send('GET', '/api/v1/openapi.json');
    expect(document.body?.openapi).toBe('3.1.0');
    expect(Object.keys(document.body?.paths ?? {})).toContain('/v1/probe/{id}');
    const page = await unlimited.send('GET', '/api/docs');
    expect(page.headers.get('content-type')).toContain('text/html');
    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-/,
    );
    expect(page.text).toContain('probeEcho');
    expect(page.text).not.toMatch(/<script|src=|https?:\/\//);
  });
});
