import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { json, type RawCall, rawMcpServer } from '../../support/sidecar/mcp-raw-server.ts';
import { sessionServer } from '../../support/sidecar/mcp-session-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

const when = (path: string, operator: string, value: unknown) => ({
  all: [{ path, operator, value }],
});
const rules = [
  {
    name: 'money',
    decision: 'require_approval',
    reason: 'test.money',
    when: when('tool.name', 'matches', '\\.pay$'),
    approval: { grant: { max_uses: 5, max_ttl_seconds: 600, scope: 'tool' } },
  },
  {
    name: 'account',
    decision: 'deny',
    reason: 'test.account',
    when: when('mcp.meta.account', '==', 'closed'),
  },
  {
    name: 'answers',
    decision: 'deny',
    reason: 'test.answers',
    when: when('tool.name', '==', 'mcp.mute/response'),
  },
];

let bench: McpBench;
let url: URL;
let talking: URL;
let mute: URL;
let performed: RawCall[] = [];
beforeAll(async () => {
  bench = await startMcpBench({ SALLYPORT_HOLD_MS: '1' });
  const raw = rawMcpServer();
  raw.behave((call, res) => {
    performed.push(call);
    json(res, { jsonrpc: '2.0', id: call.id, result: { content: [] } });
  });
  url = await bench.serve('bank', raw.http);
  talking = await bench.serve('talking', sessionServer().http);
  mute = await bench.serve('mute', sessionServer().http);
  const policy = { name: 'parts', publish: true, rules_json: { id: 'parts', version: 1, rules } };
  const published = await bench.api('POST', '/v1/policies', policy);
  if (published.status !== 201) throw new Error(JSON.stringify(published.body));
  await until('the policy is active', async () => {
    const { result } = await call({ _meta: { account: 'closed' } }, 'look');
    return result?.structuredContent?.reason_code === 'test.account';
  });
});
afterAll(() => bench?.close());

interface Answer {
  readonly result?: {
    readonly isError?: boolean;
    readonly structuredContent?: {
      readonly reason_code: string;
      readonly approval_request_id?: string;
      readonly evidence_event_id: string;
    };
  };
}

async function call(parts: object, name = 'pay', args: object = { amount: 5 }): Promise<Answer> {
  const params = { name, arguments: args, ...parts };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const answer = await bench.fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(message),
  });
  // A held call with a progress token is answered by an event stream, in which the response comes last.
  const text = await answer.text();
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream');
  return JSON.parse(isStream ? (text.trim().split('data: ').at(-1) ?? '') : text) as Answer;
}

const verdict = ({ result }: Answer) => result?.structuredContent?.reason_code ?? 'performed';

/** Requests a call, which a human then approves. Resolves when the sidecar has the decision. */
async function approved(parts: object, args: object, grant?: object): Promise<void> {
  const id = (await call(parts, 'pay', args)).result?.structuredContent?.approval_request_id;
  const decided = await bench.api('POST', `/v1/approvals/${id}/decide`, {
    action: 'approve',
    comment: 'fine',
    ...(grant === undefined ? {} : { grant }),
  });
  expect(decided.status).toBe(200);
  await until('the sidecar knows', async () => {
    const location = `http://sallyport.internal/approvals/${id}`;
    return (
      ((await (await bench.fetch(location)).json()) as { status: string }).status === 'approved'
    );
  });
}

const others = [
  ['metadata', { _meta: { progressToken: 1, account: 'other' } }],
  ['a task', { task: { ttl: 1000 } }],
  ['input responses', { inputResponses: { payee: { action: 'accept', content: { to: 'me' } } } }],
  ['request state', { requestState: 'signed by the server for another call' }],
] as const;

let amount = 100;
const freshArgs = () => ({ amount: ++amount });

describe('an approval of an MCP call', () => {
  it.each(others)('does not cover the same call after the addition of %s', async (_, parts) => {
    const args = freshArgs();
    await approved({}, args);
    performed = [];
    expect(verdict(await call(parts, 'pay', args))).toBe('approval.pending');
    expect(performed).toEqual([]);
    expect(verdict(await call({}, 'pay', args))).toBe('performed');
  });

  it.each(others)(
    'given for a call with %s covers exactly these parameters, and only once',
    async (_, parts) => {
      const args = freshArgs();
      await approved(parts, args);
      performed = [];
      expect(verdict(await call({}, 'pay', args))).toBe('approval.pending');
      expect(verdict(await call(parts, 'pay', args))).toBe('performed');
      expect(performed.map(({ params }) => params)).toEqual([
        { name: 'pay', arguments: args, ...parts },
      ]);
      expect(verdict(await call(parts, 'pay', args))).toBe('approval.pending');
    },
  );

  it('covers a retry with a different progress token and trace context', async () => {
    const args = freshArgs();
    const trace = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    await approved({ _meta: { progressToken: 1 } }, args);
    const retry = { _meta: { progressToken: 2, traceparent: trace } };
    expect(verdict(await call(retry, 'pay', args))).toBe('performed');
  });
});

describe('a standing grant for an MCP tool', () => {
  it('covers calls with any arguments, but no call with input responses or request state', async () => {
    await approved({}, freshArgs(), { uses: 5, ttl_seconds: 600, scope: 'tool' });
    expect(verdict(await call({}, 'pay', freshArgs()))).toBe('performed');
    for (const [, parts] of others.slice(2)) {
      expect(verdict(await call(parts, 'pay', freshArgs()))).toBe('approval.pending');
    }
  });
});

describe('MCP call parameters other than the arguments', () => {
  const parts = { _meta: { account: 'a-1' }, requestState: 'round two' };

  it('are shown to approvers', async () => {
    const { result } = await call(parts, 'pay', freshArgs());
    const id = result?.structuredContent?.approval_request_id;
    const { body } = await bench.api('GET', `/v1/approvals/${id}`);
    expect(body.proposed_mcp).toEqual({ meta: { account: 'a-1' }, request_state: 'round two' });
  });

  it('are recorded in the evidence as shape and digest', async () => {
    const { result } = await call(parts, 'pay', freshArgs());
    const id = result?.structuredContent?.evidence_event_id;
    const event = await bench.untilEvent('the decision is sealed', (one) => one.id === id);
    expect(event.data).toMatchObject({
      mcp_shape: { meta: { account: 'string' }, request_state: 'string' },
      mcp_digest: expect.stringMatching(/^hmac-sha256:[0-9a-f]{64}$/),
    });
    expect(JSON.stringify(event)).not.toMatch(/a-1|round two/);
  });

  it('are available to policies', async () => {
    expect(verdict(await call({ _meta: { account: 'open' } }, 'look'))).toBe('performed');
    expect(verdict(await call({ _meta: { account: 'closed' } }, 'look'))).toBe('test.account');
  });
});

describe('a client’s response to a request from the server', () => {
  async function talk(endpoint: URL) {
    const transport = new StreamableHTTPClientTransport(endpoint, { fetch: bench.fetch });
    const capabilities = { roots: {}, sampling: {}, elicitation: {} };
    const client = new Client({ name: 'agent', version: '1' }, { capabilities });
    client.setRequestHandler(CreateMessageRequestSchema, async () => ({
      model: 'm',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: 'hi' },
    }));
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept' as const }));
    client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [] }));
    await client.connect(transport as Parameters<Client['connect']>[0]);
    const result = await client.callTool({ name: 'talk' });
    await client.close();
    return result as { readonly content: readonly { readonly text: string }[] };
  }

  it('is forwarded if a policy allows it', async () => {
    expect((await talk(talking)).content[0]?.text).toContain('"sampled":"m"');
  });

  it('is replaced by an error if a policy denies it, and the call ends', async () => {
    expect(await talk(mute)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('Denied: test.answers') }],
    });
    await bench.untilEvent(
      'the decision is sealed',
      ({ tool, decision }) => tool === 'mcp.mute/response' && decision === 'deny',
    );
  });
});
