import { afterAll, describe, expect, it } from 'vitest';
import { bindingRoutes } from '../../../control-plane/bindings/routes.ts';
import { bindingOf } from '../../../control-plane/bindings/stored-binding.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const { services, api, moved, close } = await startWatchedApi(bindingRoutes);
afterAll(close);

const keys = new Map<string, Promise<string>>();
const keyOf = (tenantId: string): Promise<string> => {
  const key = keys.get(tenantId) ?? api.key({ tenantId, principal: 'alice' });
  keys.set(tenantId, key);
  return key;
};
const put = async (tenantId: string, name: string, body: unknown) =>
  api.send('PUT', `/api/v1/runtime/bindings/${name}`, { key: await keyOf(tenantId), body });
const list = async (tenantId: string) => {
  const answer = await api.send('GET', '/api/v1/runtime/bindings', { key: await keyOf(tenantId) });
  return answer.body?.bindings as Record<string, unknown>[];
};
const http = (more: object = {}) => ({
  protocol: 'http',
  tool: 'payments.refund',
  host: 'api.payments.example',
  method: 'POST',
  path: '/v1/refunds/{id}',
  ...more,
});

describe('a binding', () => {
  it('is stored with its host in the normalised form', async () => {
    const answer = await put('t1', 'refunds', http({ host: 'API.Payments.Example.:443' }));
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ name: 'refunds', host: 'api.payments.example' });
    expect(await list('t1')).toEqual([answer.body]);
  });

  it('is replaced completely when it is stored again', async () => {
    await put('t2', 'refunds', http({ resource: 'refund:{id}' }));
    const again = await put('t2', 'refunds', http());
    expect(again.status).toBe(200);
    expect(again.body).not.toHaveProperty('resource');
    expect(await list('t2')).toHaveLength(1);
  });

  it('is published to the sidecars and recorded in the ledger when it is stored and when it is removed', async () => {
    await put('t3', 'refunds', http());
    const removed = await api.send('DELETE', '/api/v1/runtime/bindings/refunds', {
      key: await keyOf('t3'),
    });
    expect([removed.status, removed.body?.name]).toEqual([200, 'refunds']);
    expect(await list('t3')).toEqual([]);
    expect(moved.filter((section) => section === 't3 bindings')).toHaveLength(2);
    const events = await eventsOf(services, 't3');
    expect(events.map(({ type }) => type)).toEqual(['binding.written', 'binding.removed']);
  });

  it('is invisible to other tenants and does not conflict with their bindings', async () => {
    await put('t4', 'refunds', http());
    expect(await list('t5')).toEqual([]);
    expect((await put('t5', 'mine', http())).status).toBe(200);
  });

  it('is rejected if its row was changed in the database', async () => {
    await put('t6', 'refunds', http());
    const row = await services.db.binding.findFirstOrThrow({ where: { tenantId: 't6' } });
    expect(bindingOf(row, services.vault)).toMatchObject({
      name: 'refunds',
      tool: 'payments.refund',
    });
    const definition = { ...(row.definition as object), host: 'evil.example' };
    expect(bindingOf({ ...row, definition }, services.vault)).toBeUndefined();
    expect(bindingOf({ ...row, tenantId: 't1' }, services.vault)).toBeUndefined();
    expect(bindingOf({ ...row, name: 'other' }, services.vault)).toBeUndefined();
    expect(bindingOf({ ...row, mac: null }, services.vault)).toBeUndefined();
  });

  it('cannot be removed if it does not exist', async () => {
    const answer = await api.send('DELETE', '/api/v1/runtime/bindings/none', {
      key: await keyOf('t1'),
    });
    expect([answer.status, answer.body?.reason_code]).toEqual([404, 'binding.not_found']);
  });
});

describe('bindings that cover the same calls', () => {
  it.each<[string, object, object]>([
    ['the same path', http(), http({ tool: 'payments.other' })],
    ['two templates that match one path', http({ path: '/a/{x}' }), http({ path: '/{y}/b' })],
    [
      'a passthrough and an HTTP call to one host',
      http(),
      { protocol: 'passthrough', host: 'api.payments.example' },
    ],
    [
      'two MCP servers at one endpoint',
      { protocol: 'mcp', host: 'm.example' },
      { protocol: 'mcp', host: 'M.example', path: '/mcp' },
    ],
    [
      'an HTTP call at the endpoint of an MCP server',
      { protocol: 'mcp', host: 'm.example', path: '/mcp' },
      http({ host: 'm.example', path: '/mcp' }),
    ],
  ])('are refused: %s', async (what, one, other) => {
    expect(
      (await put(what.length + what.slice(0, 4).replaceAll(/\W/g, ''), 'one', one)).status,
    ).toBe(200);
    const tenant = what.length + what.slice(0, 4).replaceAll(/\W/g, '');
    const answer = await put(tenant, 'other', other);
    expect([answer.status, answer.body?.reason_code]).toEqual([409, 'binding.overlap']);
    expect(answer.body?.binding).toBe('one');
    expect(await list(tenant)).toHaveLength(1);
  });

  it('are accepted if one binding is more specific, or if the method, host or port differs', async () => {
    expect((await put('many', 'one', http({ path: '/a/{x}' }))).status).toBe(200);
    for (const [name, body] of Object.entries({
      literal: http({ path: '/a/b' }),
      method: http({ path: '/a/{x}', method: 'PUT' }),
      host: http({ path: '/a/{x}', host: 'other.example' }),
      port: http({ path: '/a/{x}', host: 'api.payments.example:8443' }),
    })) {
      expect((await put('many', name, body)).status).toBe(200);
    }
  });

  it('are refused, except for exactly one, if they are stored concurrently', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => put('race', `b${index}`, http())),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
    expect(await list('race')).toHaveLength(1);
  });
});

describe('the upstream of a tool', () => {
  const upstream = { url: 'https://internal.example/refunds/{id}', method: 'POST' };

  it('is fixed for all bindings of the tool: a binding with another upstream is refused', async () => {
    expect((await put('up', 'one', http({ upstream }))).status).toBe(200);
    const other = http({ host: 'other.example', upstream });
    const refused = await put('up', 'two', other);
    expect(refused).toMatchObject({
      status: 409,
      body: { reason_code: 'binding.overlap', binding: 'one' },
    });
    expect((await put('up', 'two', { ...other, upstream: undefined })).status).toBe(200);
    expect((await put('up', 'one', http({ upstream }))).status).toBe(200);
    expect((await put('elsewhere', 'two', other)).status).toBe(200);
  });

  it('is the same in all bindings that are stored concurrently', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        put('many-up', `b${index}`, http({ host: `h${index}.example`, upstream })),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
  });
});

describe('a malformed binding', () => {
  it.each<[string, object]>([
    ['an HTTP call without a tool', http({ tool: undefined })],
    ['a path with dot segments', http({ path: '/v1/../admin' })],
    ['a wildcard host', http({ host: '*.example' })],
    ['a host with a path', http({ host: 'a.example/x' })],
    ['a passthrough with a tool', http({ protocol: 'passthrough' })],
    [
      'an MCP server with an upstream',
      {
        protocol: 'mcp',
        host: 'm.example',
        upstream: { url: 'https://a/', method: 'POST' },
      },
    ],
    [
      'an upstream that contains a secret',
      http({
        upstream: {
          url: 'https://a.example/x',
          method: 'POST',
          headers: { Authorization: 'Bearer x' },
        },
      }),
    ],
    [
      'an upstream header with a line break',
      http({
        upstream: { url: 'https://a.example/x', method: 'POST', headers: { 'x-a': 'b\r\nc: d' } },
      }),
    ],
    [
      'an upstream that is not an HTTP URL',
      http({ upstream: { url: 'file:///etc/passwd', method: 'POST' } }),
    ],
    [
      'an upstream with a password',
      http({ upstream: { url: 'https://u:p@a.example/', method: 'POST' } }),
    ],
  ])('is refused: %s', async (_what, body) => {
    const answer = await put('wrong', 'w', body);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'binding.invalid']);
    expect(await list('wrong')).toEqual([]);
  });

  it('is refused if it has an unknown field or an invalid name', async () => {
    expect((await put('wrong', 'w', http({ hots: 'x' }))).body?.reason_code).toBe(
      'args.schema_invalid',
    );
    expect((await put('wrong', 'a%20b', http())).status).toBe(400);
  });
});
