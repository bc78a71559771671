import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { json, rawMcpServer } from '../../support/sidecar/mcp-raw-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

const secret = 'the-secret-of-the-bank';
let bench: McpBench;
let url: URL;
let strict: URL;
const seen: { readonly method: string | undefined; readonly authorization: string | undefined }[] =
  [];

beforeAll(async () => {
  bench = await startMcpBench();
  const raw = rawMcpServer();
  raw.behave(({ id, method }, res, req) => {
    seen.push({ method, authorization: req.headers.authorization });
    json(res, { jsonrpc: '2.0', id, result: { tools: [], resources: [], prompts: [] } });
  });
  url = await bench.serve('bank', raw.http);
  strict = new URL(url);
  strict.pathname = '/strict';
  await bench.bind('strict', {
    protocol: 'mcp',
    host: url.host,
    path: strict.pathname,
    list_actions: true,
  });
  const credential = await bench.api('POST', '/v1/credentials', {
    name: 'bank',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['**'], hosts: [url.host] },
  });
  if (credential.status >= 300) throw new Error(JSON.stringify(credential.body));
});
afterAll(() => bench?.close());

async function ask(method: string, endpoint = url) {
  const answer = await bench.fetch(endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} }),
  });
  const { error } = (await answer.json()) as { error?: { data: { reason_code: string } } };
  return { reason: error?.data.reason_code, sent: seen.at(-1) };
}

/** Gives the agent these capabilities; resolves when its sidecar has received them. */
async function limitTo(...capabilities: string[]): Promise<void> {
  const agent = { name: 'tester', capabilities };
  expect((await bench.api('POST', '/v1/agents/register', agent)).status).toBeLessThan(300);
  await until('the sidecar knows', async () => {
    const manifest = await bench.fetch('http://sallyport.internal/manifest');
    const held = (await manifest.json()) as { capabilities: string[] };
    return held.capabilities.join() === capabilities.join();
  });
}

const passing = [
  'initialize',
  'server/discover',
  'ping',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
];

describe('a binding with list_actions', () => {
  it('makes lists of resources and prompts subject to policies, but forwards initialize and tools/list without a decision', async () => {
    for (const method of ['resources/list', 'resources/templates/list', 'prompts/list']) {
      expect((await ask(method, strict)).reason).toBe('test.method');
      expect((await ask(method)).reason).toBeUndefined();
    }
    for (const method of ['initialize', 'tools/list']) {
      expect((await ask(method, strict)).reason).toBeUndefined();
    }
    await bench.untilEvent(
      'the decision is sealed',
      ({ tool, decision }) => tool === 'mcp.strict/resources/list' && decision === 'deny',
    );
  });

  it('is accepted for MCP servers only', async () => {
    const body = { protocol: 'passthrough', host: 'x.example', list_actions: true };
    const { status } = await bench.api('PUT', '/v1/runtime/bindings/other', body);
    expect(status).toBe(400);
  });
});

describe('the credential of an MCP server', () => {
  it('is added to handshake and list requests if the agent can call a tool of the server', async () => {
    await limitTo('notes.*', 'mcp.*.balance');
    await until('the credential is held', async () => {
      return (await ask('ping')).sent?.authorization === `Bearer ${secret}`;
    });
    for (const method of passing) {
      expect((await ask(method)).sent).toEqual({ method, authorization: `Bearer ${secret}` });
    }
  });

  it('is not added to handshake and list requests if the agent can call no tool of the server', async () => {
    await limitTo('notes.*', 'mcp.banks.*', 'mcp.bank-x/**');
    for (const method of passing) {
      expect((await ask(method)).sent).toEqual({ method, authorization: undefined });
    }
  });
});
