import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Binding } from '../../../shared/binding/binding.ts';
import { post, raw } from '../../support/disguises/request.ts';
import { codeOf, expectAction, RecogniseServer, type Seen, written } from './support.ts';

const host = 'mcp.example.com';
const payments: Binding = { name: 'payments', protocol: 'mcp', host };
const crm: Binding = {
  name: 'crm',
  protocol: 'mcp',
  host,
  path: '/crm/mcp?profile=eu',
  resource: 'customer:{customer_id}',
  headers: ['Authorization'],
};
const server = new RecogniseServer([payments, crm], {
  toolHasOutputSchema: (tool) => tool === 'mcp.payments.report',
});
beforeAll(() => server.open());
afterAll(() => server.close());

const where = { host };
const request = (method: string, params?: object, id: string | number = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params ? { params } : {}),
});
const send = (message: unknown, headers: readonly string[] = [], target = '/mcp') =>
  server.send(post(target, message, headers), where);

function expectPass(seen: Seen) {
  if (seen === 'unparsed' || seen.kind !== 'pass') throw new Error(JSON.stringify(seen));
  return seen;
}

describe('tools/call', () => {
  it('is recognised as mcp.<binding>.<tool> with its arguments, and with the tool as its resource', async () => {
    const message = request(
      'tools/call',
      { name: 'refund.create', arguments: { amount: 900 } },
      'c-1',
    );
    expect(await send(message)).toMatchObject({
      kind: 'action',
      binding: payments,
      tool: 'mcp.payments.refund.create',
      resource: 'tool:refund.create',
      args: { amount: 900 },
      form: { kind: 'mcp', id: 'c-1', method: 'tools/call', tool: 'mcp.payments.refund.create' },
    });
  });

  it('has the resource of the binding’s template if its arguments fill it', async () => {
    const call = (args: object) =>
      send(request('tools/call', { name: 'show', arguments: args }), [], '/crm/mcp?profile=eu');
    expect(await call({ customer_id: 'c1' })).toMatchObject({ resource: 'customer:c1' });
    expect(await call({})).toMatchObject({ resource: 'tool:show', tool: 'mcp.crm.show' });
  });

  it('is recognised with empty arguments if the message contains none', async () => {
    const action = expectAction(await send(request('tools/call', { name: 'list' })));
    expect(action.args).toEqual({});
    expect(written(action.build(action.args))).toMatchObject({
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list","arguments":{}}}',
    });
  });

  it('is rebuilt: members that the protocol defines are forwarded, and other members are dropped', async () => {
    const further = {
      _meta: { progressToken: 1 },
      task: { ttl: 60000 },
      inputResponses: { a: { action: 'accept' } },
      requestState: 's',
    };
    const message = { ...request('tools/call', { name: 'x', ...further, more: 1 }), extra: 2 };
    const action = expectAction(await send(message));
    const outgoing = action.build({ a: 1 });
    expect(JSON.parse(String(outgoing.body))).toEqual(
      request('tools/call', { name: 'x', arguments: { a: 1 }, ...further }),
    );
  });

  it('is forwarded with its session, version and allowed headers only', async () => {
    const headers = [
      'Accept: application/json, text/event-stream',
      'Mcp-Session-Id: s1',
      'MCP-Protocol-Version: 2025-06-18',
      'Authorization: Bearer own',
      'Origin: https://x',
      'Action-Passport: ey',
      'Cookie: a=b',
    ];
    const standard = [
      'accept',
      'application/json, text/event-stream',
      'content-type',
      'application/json',
      'mcp-protocol-version',
      '2025-06-18',
      'mcp-session-id',
      's1',
    ];
    const call = request('tools/call', { name: 'x' });
    const action = expectAction(await send(call, headers));
    expect(action.build(action.args).headers).toEqual(standard);
    expect(action.hints.passport).toBe('ey');
    const named = expectAction(await send(call, headers, '/crm/mcp?profile=eu'));
    expect(named.build(named.args)).toMatchObject({
      path: '/crm/mcp?profile=eu',
      headers: [...standard.slice(0, 2), 'authorization', 'Bearer own', ...standard.slice(2)],
    });
  });

  it('records whether its tool has an output schema, which decides the form of a refusal', async () => {
    const call = (name: string) => send(request('tools/call', { name }));
    expect(await call('report')).toMatchObject({ form: { hasOutputSchema: true } });
    expect(await call('other')).toMatchObject({ form: { hasOutputSchema: false } });
  });

  it('is recognised with the arguments that it was built from, whatever they are', async () => {
    const args = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 }));
    await fc.assert(
      fc.asyncProperty(args, async (each) => {
        const seen = await send(request('tools/call', { name: 'x', arguments: each }));
        if (codeOf(seen) !== 'action') {
          const codes = ['args.ambiguous', 'args.number_unsafe', 'args.encoding_invalid'];
          // An argument with the name `__proto__` is refused.
          const isNamedProto = JSON.stringify(each).includes('"__proto__"');
          expect(isNamedProto ? [...codes, 'args.schema_invalid'] : codes).toContain(codeOf(seen));
          return;
        }
        const action = expectAction(seen);
        expect(action.args).toEqual(JSON.parse(JSON.stringify(each)));
        const again = await send(String(action.build(action.args).body));
        expect(expectAction(again).args).toEqual(action.args);
      }),
      { numRuns: 150 },
    );
  });
});

describe('a message without a session (2026-07-28)', () => {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
  const version = 'MCP-Protocol-Version: 2026-07-28';

  it('is sent with headers that match its method, name and arguments', async () => {
    const args = { region: 'eu west', count: 42, user: { name: 'Ädä' } };
    const call = request('tools/call', { name: 'x', arguments: args, _meta: meta });
    const action = expectAction(
      await send(call, [
        version,
        'Mcp-Method: tools/call',
        'Mcp-Name: x',
        'Mcp-Param-Region: eu west',
        'Mcp-Param-Count: 42.0',
        'Mcp-Param-UserName: =?base64?w4Rkw6Q=?=',
      ]),
    );
    expect(action.form).toMatchObject({ isStateless: true });
    expect(action.build(action.args).headers).toEqual([
      'content-type',
      'application/json',
      'mcp-protocol-version',
      '2026-07-28',
      'mcp-method',
      'tools/call',
      'mcp-name',
      'x',
      'mcp-param-region',
      'eu west',
      'mcp-param-count',
      '42.0',
      'mcp-param-username',
      '=?base64?w4Rkw6Q=?=',
    ]);
    expect(action.build({ count: 42 }).headers.join()).not.toContain('eu west');
  });

  it('has the URI of a resource in Mcp-Name, encoded if it is not ASCII', async () => {
    const uri = 'note://ü';
    const read = request('resources/read', { uri, _meta: meta });
    const encoded = `=?base64?${Buffer.from(uri).toString('base64')}?=`;
    const headers = [version, 'Mcp-Method: resources/read', `Mcp-Name: ${encoded}`];
    const action = expectAction(await send(read, headers));
    expect(action.build(action.args).headers).toContain(encoded);
  });

  it('needs no version in its body if it is a notification', async () => {
    const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
    const seen = await send(message, [version, 'Mcp-Method: notifications/cancelled']);
    expect(codeOf(seen)).toBe('pass');
  });

  it('that opens a notification stream is forwarded unless it subscribes to resources', async () => {
    const listen = (notifications: unknown) =>
      send(request('subscriptions/listen', { notifications, _meta: meta }), [
        version,
        'Mcp-Method: subscriptions/listen',
      ]);
    expect(codeOf(await listen({ toolsListChanged: true }))).toBe('pass');
    expect(codeOf(await listen({ resourceSubscriptions: [] }))).toBe('pass');
    expect(await listen({ resourceSubscriptions: ['file:///a'] })).toMatchObject({
      kind: 'action',
      tool: 'mcp.payments/subscriptions/listen',
    });
    expect(codeOf(await listen({ other: { a: 1 } }))).toBe('action');
    expect(codeOf(await listen('x'))).toBe('action');
  });
});

describe('a message that is forwarded without a decision on its arguments', () => {
  it.each([
    'initialize',
    'server/discover',
    'ping',
    'tools/list',
    'resources/list',
    'resources/templates/list',
    'prompts/list',
  ])('can be the request %s', async (method) => {
    const params = {
      ...(method.endsWith('/list') && { cursor: 'c' }),
      _meta: { progressToken: 1 },
    };
    const seen = expectPass(await send(request(method, params, 'i')));
    expect(seen).toMatchObject({ what: `mcp/${method}`, form: { kind: 'mcp', id: 'i', method } });
    expect(JSON.parse(String(seen.outgoing.body))).toEqual(request(method, params, 'i'));
  });

  it('can be a notification', async () => {
    const message = { jsonrpc: '2.0', method: 'notifications/initialized' };
    const seen = expectPass(await send(message));
    expect(seen).toMatchObject({ what: 'mcp/notifications/initialized', form: { id: null } });
    expect(JSON.parse(String(seen.outgoing.body))).toEqual(message);
  });

  it('can be a response to a request of the server', async () => {
    const result = { jsonrpc: '2.0', id: 0, result: { roots: [] } };
    const error = { jsonrpc: '2.0', id: 'a', error: { code: -1, message: 'no' } };
    for (const message of [result, error]) {
      const seen = expectPass(await send({ ...message, extra: 1 }));
      expect(seen.what).toBe('mcp/response');
      expect(JSON.parse(String(seen.outgoing.body))).toEqual(message);
    }
  });

  it('can be the GET of the server’s stream, or the DELETE of a session', async () => {
    const headers = ['Accept: text/event-stream', 'Mcp-Session-Id: s', 'Last-Event-ID: 4'];
    const stream = expectPass(await server.send(raw({ target: '/mcp', headers }), where));
    expect(stream).toMatchObject({ what: 'mcp/stream', form: { kind: 'http' } });
    expect(stream.outgoing).toEqual({
      scheme: 'https',
      host,
      port: 443,
      method: 'GET',
      path: '/mcp',
      body: null,
      headers: ['accept', 'text/event-stream', 'mcp-session-id', 's', 'last-event-id', '4'],
    });
    const end = raw({ method: 'DELETE', target: '/mcp', headers: ['Mcp-Session-Id: s'] });
    expect(expectPass(await server.send(end, where)).what).toBe('mcp/session-end');
  });
});

describe('a method that is neither tools/call nor forwarded without a decision', () => {
  it.each([
    ['resources/read', { uri: 'file:///a/b' }, 'file:///a/b'],
    ['resources/subscribe', { uri: 'note://1' }, 'note://1'],
    ['prompts/get', { name: 'greet', arguments: { who: 'x' } }, 'prompt:greet'],
    ['completion/complete', { ref: {} }, 'method:completion/complete'],
    ['logging/setLevel', { level: 'debug' }, 'method:logging/setLevel'],
    ['tasks/result', { taskId: 't' }, 'method:tasks/result'],
    ['vendor/thing', {}, 'method:vendor/thing'],
  ])('is an action: %s', async (method, params, resource) => {
    const meta = { progressToken: 1 };
    const action = expectAction(await send(request(method, { ...params, _meta: meta })));
    expect(action).toMatchObject({ tool: `mcp.payments/${method}`, resource, args: params });
    expect(action.form).toEqual({ kind: 'mcp', id: 1, method, isStateless: false });
    expect(JSON.parse(String(action.build(action.args).body))).toEqual(
      request(method, { ...params, _meta: meta }),
    );
  });

  it.each(['file:///a/../b', 'file:///a/%2e%2E/b', 'file:///a/..%2fb', 'a/./b', '..', 'x\\..\\y'])(
    'is refused for the URI %s, which could leave the scope of a glob',
    async (uri) => {
      expect(codeOf(await send(request('resources/read', { uri })))).toBe('proxy.path_refused');
    },
  );

  it('is refused if the letter case of a member name differs', async () => {
    const seen = await send(request('resources/read', { URI: 'file:///etc/passwd' }));
    expect(codeOf(seen)).toBe('mcp.malformed');
  });

  it('has an action name that cannot be the name of any tool', async () => {
    for (const name of ['a', 'a/b', 'a.b', 'resources/read', 'x/y.z']) {
      const action = expectAction(await send(request('tools/call', { name })));
      expect(action.tool).toBe(`mcp.payments.${name}`);
    }
  });
});

describe('a refusal on an MCP endpoint', () => {
  it('has the id of the request if the id can be read', async () => {
    const twice = '{"jsonrpc":"2.0","id":"c7","method":"tools/call","params":{},"params":{}}';
    expect(await send(twice)).toMatchObject({
      kind: 'refusal',
      code: 'args.duplicate_key',
      form: { kind: 'mcp', id: 'c7' },
    });
  });

  it('has a null id if the request has no readable id', async () => {
    for (const body of ['{', '[]', '{"jsonrpc":"2.0","id":{},"method":"x"}', '{"id":1}', '']) {
      expect(await send(body)).toMatchObject({ kind: 'refusal', form: { kind: 'mcp', id: null } });
    }
  });

  it('is plain HTTP for an HTTP method or path that accepts no MCP message', async () => {
    const put = raw({ method: 'PUT', target: '/mcp' });
    expect(await server.send(put, where)).toMatchObject({
      code: 'proxy.method_refused',
      form: { kind: 'http' },
    });
    const metadata = raw({ target: '/.well-known/oauth-protected-resource' });
    expect(codeOf(await server.send(metadata, where))).toBe('proxy.unbound_call');
  });
});
