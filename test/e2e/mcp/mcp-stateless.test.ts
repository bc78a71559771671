import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { referenceServer } from '../../conformance/reference/server.ts';
import { until } from '../../support/programs/processes.ts';
import { json, type RawCall, rawMcpServer } from '../../support/sidecar/mcp-raw-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

const revision = '2026-07-28';
let bench: McpBench;
let url: URL;
let strict: URL;
let raw: URL;
const rawServer = rawMcpServer();
const rawSeen: RawCall[] = [];
beforeAll(async () => {
  bench = await startMcpBench();
  url = await bench.serve('reference', referenceServer('stateless'));
  strict = await bench.serve('strict', referenceServer('stateless'));
  raw = await bench.serve('raw', rawServer.http);
});
afterAll(() => bench?.close());

async function connect(endpoint = url): Promise<Client> {
  const client = new Client(
    { name: 'agent', version: '1' },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: { pin: revision } },
    },
  );
  client.setRequestHandler('elicitation/create', () => ({
    action: 'accept',
    content: { name: 'Ada', ok: 'yes', answer: '42', context: 'this' },
  }));
  client.setRequestHandler('sampling/createMessage', () => ({
    model: 'm1',
    role: 'assistant',
    content: { type: 'text', text: 'Paris' },
  }));
  client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///r' }] }));
  await client.connect(new StreamableHTTPClientTransport(endpoint, { fetch: bench.fetch }));
  return client;
}

describe('a client of the official SDK 2.x, without sessions, through a live sidecar', () => {
  it('discovers the server, and has every request recorded with its method', async () => {
    const client = await connect();
    expect(client.getNegotiatedProtocolVersion()).toBe(revision);
    await client.listTools();
    for (const tool of ['mcp.reference/server/discover', 'mcp.reference/tools/list']) {
      await bench.untilEvent(`${tool} is recorded`, (event) => event.tool === tool);
    }
    await client.close();
  });

  it('is asked for missing input of a tool or a prompt, in several rounds', async () => {
    const client = await connect();
    const call = async (name: string) =>
      JSON.stringify(await client.callTool({ name: `test_input_required_result_${name}` }));
    expect(await call('elicitation')).toContain('Ada');
    expect(await call('sampling')).toContain('Paris');
    expect(await call('list_roots')).toContain('file:///r');
    expect(await call('multiple_inputs')).toContain('state-ok');
    expect(await call('multi_round')).toContain('Both rounds are done.');
    const prompt = await client.getPrompt({ name: 'test_input_required_result_prompt' });
    expect(JSON.stringify(prompt)).toContain('With the context given.');
    await client.close();
  });

  it('receives changes on its subscription stream', async () => {
    const heard: string[] = [];
    const client = await connect();
    client.setNotificationHandler('notifications/tools/list_changed', () => {
      heard.push('tools');
    });
    const subscription = await client.listen({ toolsListChanged: true });
    await client.callTool({ name: 'test_trigger_tool_change' });
    await until('the change is heard', async () => heard.length > 0);
    await subscription.close();
    await client.close();
  });

  it('receives progress during a call', async () => {
    const client = await connect();
    const progress: number[] = [];
    await client.callTool(
      { name: 'test_tool_with_progress' },
      { onprogress: (told) => progress.push(told.progress) },
    );
    expect(progress).toEqual([0, 50, 100]);
    await client.close();
  });

  it('continues after the denial of a method other than tools/call', async () => {
    const client = await connect(strict);
    const uri = 'test://static-text';
    await expect(client.readResource({ uri })).rejects.toThrow(/test\.method/);
    expect((await client.listResources()).resources.length).toBeGreaterThan(0);
    const answer = await client.callTool({ name: 'test_simple_text' });
    expect(JSON.stringify(answer)).toContain('simple text');
    await client.close();
  });
});

describe('messages of 2026-07-28 that the SDK does not send', () => {
  const send = (method: string, params: Record<string, unknown>, endpoint = raw, name?: string) =>
    bench.fetch(endpoint, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': revision,
        'mcp-method': method,
        ...(name === undefined ? {} : { 'mcp-name': name }),
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method,
        params: {
          ...params,
          _meta: {
            'io.modelcontextprotocol/protocolVersion': revision,
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    });

  it('that read, update or cancel tasks are judged as separate actions', async () => {
    rawServer.behave((call, res) => {
      rawSeen.push(call);
      const task = { taskId: 't1', status: 'working', ttlMs: 1000, resultType: 'task' };
      json(res, { jsonrpc: '2.0', id: call.id, result: task });
    });
    const begun = await send('tools/call', { name: 'long', arguments: {} }, raw, 'long');
    expect(await begun.json()).toMatchObject({ result: { taskId: 't1', status: 'working' } });
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const answer = await send(method, { taskId: 't1' }, raw, 't1');
      expect(await answer.json()).toMatchObject({ result: { taskId: 't1' } });
      await bench.untilEvent(
        `${method} is judged`,
        (event) => event.tool === `mcp.raw/${method}` && event.reason_code === 'test.allowed',
      );
    }
    expect(rawSeen.map(({ method }) => method)).toEqual([
      'tools/call',
      'tasks/get',
      'tasks/update',
      'tasks/cancel',
    ]);
  });

  it('are refused if the task id differs from the header', async () => {
    const before = rawSeen.length;
    const answer = await send('tasks/cancel', { taskId: 't2' }, raw, 't1');
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { code: -32020 } }]);
    expect(rawSeen).toHaveLength(before);
  });

  it('are refused if the body contains no version, as the revision requires', async () => {
    const answer = await bench.fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'mcp-protocol-version': revision,
        'mcp-method': 'ping',
      },
      body: '{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}',
    });
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { code: -32602 } }]);
  });

  it('are forwarded if their version is unknown, and the server refuses them', async () => {
    const version = 'v999.0.0';
    const answer = await bench.fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': version,
        'mcp-method': 'server/discover',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'server/discover',
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': version,
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    });
    expect(await answer.json()).toMatchObject({
      error: { code: -32022, data: { requested: version, supported: [revision] } },
    });
  });
});
