import * as core from '@modelcontextprotocol/core';
import * as sdk from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { passing, passingResults, unjudgedMeta } from '../../../proxy/mcp/members.ts';
import { unjudgedHeaders } from '../../../proxy/recognise/agent-headers.ts';
import { actionDigest } from '../../../shared/approval/action-digest.ts';
import type { JsonObject, JsonValue } from '../../../shared/base/json.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { post } from '../../support/disguises/request.ts';
import { RecogniseServer, type Seen } from '../recognise/support.ts';

const host = 'mcp.example.com';
const payments: Binding = {
  name: 'payments',
  protocol: 'mcp',
  host,
  headers: ['X-Account', 'Authorization', 'X-Api-Key'],
};
const server = new RecogniseServer([payments]);
beforeAll(() => server.open());
afterAll(() => server.close());

/** Returns the object shapes that a schema of either SDK describes. It resolves all wrappers and unions. */
function shapesOf(schema: unknown): Readonly<Record<string, unknown>>[] {
  const { shape, options, unwrap } = schema as {
    readonly shape?: Readonly<Record<string, unknown>>;
    readonly options?: readonly unknown[];
    readonly unwrap?: () => unknown;
  };
  if (shape !== undefined) return [shape];
  if (Array.isArray(options)) return options.flatMap(shapesOf);
  return unwrap === undefined ? [] : shapesOf(unwrap.call(schema));
}

function methodsOf(...unions: readonly unknown[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { method, params } of unions.flatMap(shapesOf)) {
    const name = (method as { readonly value: string }).value;
    const members = found.get(name) ?? new Set();
    for (const shape of shapesOf(params)) for (const one of Object.keys(shape)) members.add(one);
    found.set(name, members);
  }
  return found;
}

// Members from revision 2026-07-28 ("Multi Round-Trip Requests") and its tasks extension, which no
// schema of the SDKs contains.
const rounds = ['inputResponses', 'requestState'];
const requests = methodsOf(
  sdk.ClientRequestSchema,
  core.ClientRequestSchema,
  core.DiscoverRequestSchema,
  core.SubscriptionsListenRequestSchema,
);
for (const method of ['tools/call', 'prompts/get', 'resources/read']) {
  for (const member of rounds) requests.get(method)?.add(member);
}
requests.set('tasks/update', new Set(['taskId', '_meta', ...rounds]));
requests.set('vendor/own', new Set(['_meta']));
const notifications = methodsOf(sdk.ClientNotificationSchema, core.ClientNotificationSchema);
const results = [sdk.ClientResultSchema, core.ClientResultSchema].flatMap(shapesOf);

/** For each member, two values that could change the meaning of the action. */
const samples: Readonly<Record<string, readonly [JsonValue, JsonValue]>> = {
  _meta: [{ 'vendor/account': 'a' }, { 'vendor/account': 'b' }],
  name: ['one', 'two'],
  arguments: [{ a: 1 }, { a: 2 }],
  task: [{ ttl: 1 }, { ttl: 2 }],
  inputResponses: [{ q: { action: 'accept' } }, { q: { action: 'decline' } }],
  notifications: [{ toolsListChanged: true }, { toolsListChanged: false }],
  uri: ['file:///a', 'file:///b'],
};
const sample = (member: string, which: 0 | 1): JsonValue =>
  samples[member]?.[which] ?? `value ${which}`;

const send = (message: object, headers: readonly string[] = []) =>
  server.send(post('/mcp', message, headers), { host });
const requestOf = (method: string, params: JsonObject) => ({
  jsonrpc: '2.0',
  ...(method.startsWith('notifications/') ? {} : { id: 1 }),
  method,
  params: { ...(method === 'tools/call' ? { name: 'refund' } : {}), ...params },
});
const responseOf = (result: JsonObject) => ({ jsonrpc: '2.0', id: 1, result });

/**
 * Returns the digest of the action, to which an approval is bound. It is undefined for a message that is
 * forwarded without a decision.
 */
function identityOf(seen: Seen): string | undefined {
  if (seen === 'unparsed' || seen.kind !== 'action') return undefined;
  const { tool, resource, args, mcp } = seen;
  const who = { tenant: 't', agent_id: '1', user_id: 'u', manifest_hash: null };
  return actionDigest({ ...who, tool, resource, args, mcp });
}

function forwarded(seen: Seen): unknown {
  if (seen === 'unparsed' || seen.kind === 'refusal') return undefined;
  const { body, headers } = seen.kind === 'pass' ? seen.outgoing : seen.build(seen.args);
  return { body: String(body), headers };
}

/** Reports whether policies and approvals treat two messages, which differ in one member, as the same. */
async function isUnjudged(one: object, other: object): Promise<boolean> {
  const seen = [await send(one), await send(other)] as const;
  const [first, second] = seen.map(identityOf);
  if (first !== second) return false;
  return JSON.stringify(forwarded(seen[0])) !== JSON.stringify(forwarded(seen[1]));
}

const metaMembers = new Set(
  [sdk.ClientRequestSchema, core.ClientRequestSchema]
    .flatMap(shapesOf)
    .flatMap(({ params }) => shapesOf(params))
    .flatMap(({ _meta: meta }) => shapesOf(meta))
    .flatMap((shape) => Object.keys(shape)),
);

const invented = 'memberOfAnotherRevision';
const table = [...requests, ...notifications].flatMap(([method, members]) =>
  [...members, invented].map((member) => ({ method, member })),
);

describe('a member of a message', () => {
  it.each(table)(
    'is judged, dropped, or listed as exempt with a reason: $method $member',
    async ({ method, member }) => {
      const message = (which: 0 | 1) => requestOf(method, { [member]: sample(member, which) });
      const listed = passing[method]?.[member];
      expect(await isUnjudged(message(0), message(1))).toBe(listed !== undefined);
    },
  );

  it('of a method that needs no decision is listed as exempt with a reason', () => {
    for (const method of Object.keys(passing)) {
      const members = requests.get(method) ?? notifications.get(method) ?? new Set();
      const listed = Object.entries(passing[method] ?? {});
      expect([...members].filter((one) => one !== '_meta').sort()).toEqual(
        listed.map(([name]) => name).sort(),
      );
      for (const [, because] of listed) expect(because).not.toBe('');
    }
  });

  it.each(results.flatMap((shape) => Object.keys(shape).map((member) => ({ member, shape }))))(
    'of a client’s result is judged, dropped, or listed as exempt with a reason: $member',
    async ({ member, shape }) => {
      const names = Object.keys(shape).filter((name) => name !== '_meta');
      const whole = Object.fromEntries(names.map((name) => [name, sample(name, 0)]));
      const one = responseOf({ ...whole, [member]: sample(member, 0) });
      const other = responseOf({ ...whole, [member]: sample(member, 1) });
      const listed = passingResults.some(
        (known) => names.every((name) => name in known) && member in known,
      );
      expect(await isUnjudged(one, other)).toBe(listed);
    },
  );

  it.each([
    ['a sample', { role: 'assistant', model: 'm', content: { type: 'text', text: 'yes' } }],
    ['an accepted elicitation', { action: 'accept', content: { amount: 9 } }],
    ['another result', { answer: 1 }],
  ])('makes the client’s response an action: %s', async (_, result) => {
    expect(await send(responseOf(result))).toMatchObject({
      kind: 'action',
      tool: 'mcp.payments/response',
      resource: 'method:response',
      args: result,
    });
  });

  it('of an error response is forwarded only if it is the code or the message', async () => {
    const error = { code: -1, message: 'no', data: { do: 'this' } };
    const seen = await send({ jsonrpc: '2.0', id: 1, error });
    expect(seen).toMatchObject({ kind: 'pass', what: 'mcp/response' });
    expect(JSON.stringify(forwarded(seen))).not.toContain('this');
  });
});

/**
 * For each member of `_meta`: two values in the form that is forwarded without a decision, and one value in
 * another form.
 */
const metaSamples: Readonly<Record<string, readonly [JsonValue, JsonValue, JsonValue]>> = {
  progressToken: [1, 'two', { a: 1 }],
  traceparent: [
    `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    `00-${'c'.repeat(32)}-${'b'.repeat(16)}-01`,
    'pay somebody else',
  ],
  tracestate: ['a=1', 'a=2', 'x'.repeat(513)],
  'claudecode/toolUseId': ['toolu_1', 'toolu_2', 'an instruction'],
  'vscode.requestId': ['r-1', 'r-2', { a: 1 }],
  'io.modelcontextprotocol/clientInfo': [{ name: 'a' }, { name: 'b' }, 'c'],
  'io.modelcontextprotocol/clientCapabilities': [{}, { sampling: {} }, 'c'],
  'io.modelcontextprotocol/logLevel': ['info', 'debug', 'all'],
};

describe('a member of _meta', () => {
  const call = (meta: JsonObject) => requestOf('tools/call', { _meta: meta });

  it.each(Object.keys(unjudgedMeta))(
    'is excluded from the action digest only in its defined form: %s',
    async (name) => {
      expect(unjudgedMeta[name]?.because).not.toBe('');
      // The version cannot differ alone, because it must equal the header.
      if (name === 'io.modelcontextprotocol/protocolVersion') return;
      const [one = null, other = null, odd = null] = metaSamples[name] ?? [];
      expect(await isUnjudged(call({ [name]: one }), call({ [name]: other }))).toBe(true);
      expect(await isUnjudged(call({ [name]: one }), call({ [name]: odd }))).toBe(false);
      expect(identityOf(await send(call({ [name]: one })))).toBe(identityOf(await send(call({}))));
    },
  );

  it.each([
    ...metaMembers,
    'baggage',
    'vscode.conversationId',
    'vendor/unknown',
    'ProgressToken',
    '__proto__',
  ])('is judged unless it is listed as exempt with a reason: %s', async (name) => {
    const of = (value: JsonValue) =>
      call(JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(value)}}`) as JsonObject);
    expect(await isUnjudged(of('a'), of('b'))).toBe(Object.hasOwn(unjudgedMeta, name));
  });

  it('is removed from a forwarded message if it would have to be judged', async () => {
    const meta = { progressToken: 1, 'vendor/account': 'a' };
    const seen = await send(requestOf('tools/list', { _meta: meta }));
    expect(JSON.parse((forwarded(seen) as { body: string }).body).params).toEqual({
      _meta: { progressToken: 1 },
    });
  });
});

describe('MCP message parameters other than the arguments', () => {
  it('are available to policies as members of mcp, in snake case', async () => {
    const parts = {
      _meta: { progressToken: 1, 'vendor/account': 'a' },
      task: { ttl: 5 },
      inputResponses: { q: { action: 'accept' } },
      requestState: 's',
    };
    for (const method of ['tools/call', 'prompts/get', 'resources/read', 'tasks/update']) {
      const seen = await send(requestOf(method, { ...parts, uri: 'file:///a' }), ['X-Account: 7']);
      expect(seen).toMatchObject({
        kind: 'action',
        mcp: {
          meta: { 'vendor/account': 'a' },
          task: { ttl: 5 },
          input_responses: { q: { action: 'accept' } },
          request_state: 's',
          headers: { 'x-account': '7' },
        },
      });
      const { body } = forwarded(seen) as { body: string };
      expect(JSON.parse(body).params).toMatchObject(parts);
    }
  });

  it.each([
    ['_meta', 'text'],
    ['task', 1],
    ['inputResponses', []],
    ['requestState', { a: 1 }],
    ['_Meta', {}],
    ['inputresponses', {}],
    ['REQUESTSTATE', 's'],
  ])(
    'are refused if they have the wrong type or a different spelling: %s',
    async (member, value) => {
      for (const method of ['tools/call', 'prompts/get']) {
        const seen = await send(requestOf(method, { [member]: value }));
        expect(seen).toMatchObject({ kind: 'refusal', code: 'mcp.malformed' });
      }
    },
  );

  it('are absent for a call without such parameters, which therefore keeps its digest', async () => {
    const seen = await send(requestOf('tools/call', { _meta: { progressToken: 5 } }));
    expect(seen).toMatchObject({ kind: 'action', mcp: undefined });
  });

  it('include the headers that the binding allows, except Authorization and Cookie', async () => {
    const headers = ['X-Account: 7', 'Authorization: Bearer own', 'X-Api-Key: k1', 'Accept: */*'];
    const seen = await send(requestOf('tools/call', {}), headers);
    const { mcp } = seen as unknown as { mcp: { headers: JsonObject } };
    expect(mcp.headers).toEqual({
      'x-account': '7',
      'x-api-key': expect.stringMatching(/^sha256:/),
    });
    expect(Object.keys(unjudgedHeaders)).toEqual(['authorization', 'cookie']);
  });
});
