import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { openMemoryBus } from '../../../../shared/bus/memory.ts';
import { GatewayError } from '../../../../shared/errors/gateway-error.ts';
import { until } from '../../../support/base/until.ts';
import { startApi } from '../../../support/control-plane/api.ts';
import { startProbeApi } from './probe-api.ts';

const { api, services, lines, log, probe, key, close } = await startProbeApi();
afterAll(close);
beforeEach(() => {
  lines.length = 0;
});

describe('error responses', () => {
  it('do not contain the message of an unexpected error; the server logs this message', async () => {
    probe.failure = new Error('password=hunter2 at /srv/app');
    const answer = await api.send('POST', '/api/v1/probe/failing', { key });
    expect([answer.status, answer.body]).toEqual([
      500,
      {
        error: 'An unexpected error occurred; it was logged.',
        reason_code: 'internal.unexpected',
      },
    ]);
    const line = lines.find(({ level }) => level === 'error');
    expect(line?.fields.err).toBe(probe.failure);
  });

  it('contain code, text and public details of the error; the details cannot replace code or text', async () => {
    const details = { feature: 'itsm', min_tier: 'enterprise', error: 'x', reason_code: 'y' };
    probe.failure = new GatewayError('plan.feature_required', {
      message: 'No.',
      details,
      cause: 'why',
    });
    const answer = await api.send('POST', '/api/v1/probe/failing', { key });
    expect(answer.status).toBe(402);
    expect(answer.body).toEqual({
      error: 'No.',
      reason_code: 'plan.feature_required',
      feature: 'itsm',
      min_tier: 'enterprise',
    });
  });

  it('have status 503 and the retryable code store.unavailable if the database is unavailable', async () => {
    probe.failure = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    const answer = await api.send('POST', '/api/v1/probe/failing', { key });
    expect([answer.status, answer.body?.reason_code]).toEqual([503, 'store.unavailable']);
    expect(answer.headers.get('retry-after')).toBe('1');
  });
});

describe('every response', () => {
  it('has security headers, a request id and the trace context, and does not name the server software', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { traceparent, 'x-request-id': 'req-1' };
    const answer = await api.send('GET', '/api/v1/probe/search', { key, headers });
    expect(answer.headers.get('traceparent')).toBe(traceparent);
    expect(answer.headers.get('x-request-id')).toBe('req-1');
    expect(answer.headers.get('x-powered-by')).toBeNull();
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
  });

  it('has a new request id and trace context if the received values are malformed', async () => {
    const headers = { traceparent: '00-zz', 'x-request-id': 'a b\tc' };
    const answer = await api.send('GET', '/api/v1/nothing', { headers });
    expect(answer.headers.get('traceparent')).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
  });

  it('is logged in one line, without key, query and body', async () => {
    await api.send('GET', '/api/v1/probe/search?q=secret-query', { key });
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

  it('is logged with the reason if it is a refusal', async () => {
    await api.send('GET', '/api/v1/probe/search', {});
    await until(() => lines.length > 0);
    expect(lines[0]).toMatchObject({
      level: 'info',
      fields: { status: 401, reasonCode: 'auth.missing_key' },
    });
  });
});

describe('responses without JSON', () => {
  it('can contain raw bytes with the content type that the operation declares', async () => {
    const answer = await api.send('GET', '/api/v1/probe/bytes', { key });
    expect(answer.headers.get('content-type')).toBe('application/zip');
    expect(answer.headers.get('x-checksum-sha256')).toBe('ab');
    expect(answer.text).toBe('PK');
  });

  it('can be streams, which end when the client disconnects', async () => {
    let ended = false;
    probe.streamed = async function* (signal) {
      try {
        yield 'data: 1\n\n';
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      } finally {
        ended = true;
      }
    };
    const going = new AbortController();
    const response = await fetch(`${api.origin}/api/v1/probe/stream`, {
      headers: { authorization: `Bearer ${key}` },
      signal: going.signal,
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('data: 1\n\n');
    going.abort();
    await until(() => ended);
  });

  it('are aborted, not completed, if their stream fails', async () => {
    probe.streamed = async function* () {
      yield 'data: 1\n\n';
      throw new Error('lost');
    };
    const answer = api.send('GET', '/api/v1/probe/stream', { key });
    await expect(answer).rejects.toThrow();
    await until(() => lines.some(({ level }) => level === 'error'));
  });
});

describe('the HTTP server', () => {
  it('reports liveness at healthz and readiness at readyz', async () => {
    expect((await api.send('GET', '/healthz')).body).toEqual({ status: 'ok' });
    const ready = await api.send('GET', '/readyz');
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

  it('returns 503 at readyz with the name of the failed check, without the error of the check', async () => {
    const without = { ...services, bus: openMemoryBus({ clock: services.clock, log }) };
    await without.bus.close();
    const unready = await startApi([], without);
    const answer = await unready.send('GET', '/readyz');
    const checks = ['database', 'bus', 'migrations'].map((name) => ({ name, ok: name !== 'bus' }));
    expect([answer.status, answer.body]).toEqual([503, { ready: false, checks }]);
    await unready.close();
  });

  it('counts metrics by operation and status class, without path, tenant or key', async () => {
    await api.send('GET', '/api/v1/probe/some-id', { key });
    const { text } = await api.send('GET', '/metrics');
    expect(text).toMatch(
      /sallyport_http_requests_total\{operation="probeOne",status_class="2xx"\} \d+/,
    );
    expect(text).not.toContain('some-id');
    expect(text).not.toContain(key);
  });

  it('serves the OpenAPI document', async () => {
    const document = await api.send('GET', '/api/v1/openapi.json');
    expect(document.body?.openapi).toBe('3.1.0');
    expect(Object.keys(document.body?.paths ?? {})).toContain('/v1/probe/{id}');
  });

  it('serves a rendered API reference that loads nothing from other hosts', async () => {
    const page = await api.send('GET', '/api/docs');
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toContain('text/html');
    const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
    expect(loaded).toEqual([
      'docs/favicon.png',
      'docs/swagger-ui.css',
      'v1/openapi.json',
      'docs/swagger-ui-bundle.js',
      'docs/start.js',
    ]);
    for (const path of ['docs', ...loaded]) {
      const asset = await api.send('GET', `/api/${path}`);
      expect([path, asset.status]).toEqual([path, 200]);
      const policy = asset.headers.get('content-security-policy');
      expect(policy).toMatch(/^default-src 'none'/);
      expect(policy).not.toMatch(/unsafe|https?:|\*/);
      expect(asset.text.length).toBeGreaterThan(100);
    }
    expect(page.text).not.toMatch(/<script>|<style|style=|\son\w+=|https?:\/\//);
    const start = await api.send('GET', '/api/docs/start.js');
    expect(start.text).toContain(`url: 'v1/openapi.json'`);
    expect(start.text).not.toMatch(/https?:\/\//);
  });
});
