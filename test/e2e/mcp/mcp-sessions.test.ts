import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { referenceServer } from '../../conformance/reference/server.ts';
import { until } from '../../support/programs/processes.ts';
import {
  type SessionServer,
  sessionServer,
  text,
} from '../../support/sidecar/mcp-session-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

let bench: McpBench;
let server: SessionServer;
let url: URL;
let strict: URL;
let reference: URL;
beforeAll(async () => {
  bench = await startMcpBench();
  server = sessionServer();
  url = await bench.serve('crm', server.http);
  strict = await bench.serve('strict', sessionServer().http);
  reference = await bench.serve('reference', referenceServer('sessions'));
});
afterAll(() => bench?.close());

async function connect(endpoint = url, capabilities = {}) {
  const transport = new StreamableHTTPClientTransport(endpoint, { fetch: bench.fetch });
  const client = new Client({ name: 'agent', version: '1' }, { capabilities });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return { client, transport };
}

describe('a client of the official SDK 1.x with a session through a live sidecar', () => {
  it('has one session at the server, which ends when the client terminates the session', async () => {
    const { client, transport } = await connect();
    expect(await client.callTool({ name: 'find', arguments: { who: 'Ada' } })).toEqual(text('Ada'));
    expect(server.sessions.has(transport.sessionId ?? '')).toBe(true);
    const id = transport.sessionId ?? '';
    await transport.terminateSession();
    expect(server.sessions.has(id)).toBe(false);
    expect(server.seen).toContain('DELETE session');
    await client.close();
  });

  it('receives progress and can cancel a call, and the cancellation is recorded', async () => {
    const { client } = await connect();
    const progress: number[] = [];
    const abort = new AbortController();
    const call = client.callTool({ name: 'slow' }, undefined, {
      signal: abort.signal,
      onprogress: (told) => progress.push(told.progress),
    });
    const ended = expect(call).rejects.toThrow();
    await until('progress is told', async () => progress.length > 0);
    abort.abort('enough');
    await ended;
    await until('the server hears of it', async () => server.seen.includes('slow was cancelled'));
    await bench.untilEvent(
      'the cancellation is recorded',
      ({ type, tool }) => type === 'decision' && tool === 'mcp.crm/notifications/cancelled',
    );
    expect(await client.callTool({ name: 'find', arguments: { who: 'B' } })).toEqual(text('B'));
    await client.close();
  });

  it('can disconnect during a call, and the outcome of the call is recorded as client_gone', async () => {
    const { client } = await connect();
    const began = server.seen.length;
    void client.callTool({ name: 'slow' }).catch(() => {});
    await until('the call began', async () => server.seen.slice(began).includes('slow began'));
    await client.close();
    await bench.untilEvent(
      'the outcome is recorded',
      ({ type, tool, reason_code }) =>
        type === 'execution.result' && tool === 'mcp.crm.slow' && reason_code === 'client_gone',
    );
  });

  it('receives and answers requests of the server on the GET stream', async () => {
    const { client } = await connect(url, { sampling: {}, elicitation: {}, roots: {} });
    const heard: string[] = [];
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
      heard.push('changed');
    });
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      heard.push(String(params.data));
    });
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      model: 'm1',
      role: 'assistant',
      content: { type: 'text', text: 'Hello.' },
    }));
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///r' }] }));
    const answer = await client.callTool({ name: 'talk' });
    expect(answer).toEqual(text('{"sampled":"m1","action":"decline","root":"file:///r"}'));
    expect(heard.toSorted()).toEqual(['by the stream', 'changed']);
    await client.close();
  });

  it('resumes a lost stream and receives the missed result', async () => {
    const { client } = await connect(reference);
    const answer = await client.callTool({ name: 'test_reconnection' });
    expect(answer).toMatchObject(text('The client came again and found its answer.'));
    await client.close();
  });

  it('continues after every kind of denial', async () => {
    const { client } = await connect();
    expect(await client.callTool({ name: 'find-denied' })).toMatchObject({
      isError: true,
      structuredContent: { decision: 'deny', reason_code: 'test.denied' },
    });
    await client.listTools();
    expect(await client.callTool({ name: 'report-denied' })).toMatchObject({
      isError: true,
      _meta: { 'internal.sallyport/decision': { reason_code: 'test.denied' } },
    });
    expect(await client.callTool({ name: 'find', arguments: { who: 'C' } })).toEqual(text('C'));
    await client.close();
  });

  it('can use methods other than tools/call, which are judged as separate actions', async () => {
    const { client } = await connect(strict);
    const refused = /test\.method/;
    await expect(client.readResource({ uri: 'note://1' })).rejects.toThrow(refused);
    await expect(client.getPrompt({ name: 'greet' })).rejects.toThrow(refused);
    await expect(client.setLoggingLevel('debug')).rejects.toThrow(refused);
    await expect(
      client.complete({
        ref: { type: 'ref/prompt', name: 'greet' },
        argument: { name: 'a', value: 'b' },
      }),
    ).rejects.toThrow(refused);
    expect((await client.listPrompts()).prompts).toHaveLength(1);
    expect((await client.listTools()).tools.length).toBeGreaterThan(0);
    const allowed = await connect();
    expect(await allowed.client.readResource({ uri: 'note://1' })).toMatchObject({
      contents: [{ text: 'A note.' }],
    });
    await bench.untilEvent(
      'the reading is recorded as what it is',
      ({ tool, decision }) => tool === 'mcp.crm/resources/read' && decision === 'allow',
    );
    await Promise.all([client.close(), allowed.client.close()]);
  });
});

describe('an obsolete form of MCP', () => {
  const post = (body: unknown) =>
    bench.fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify(body),
    });

  it('is refused if it is a batch, and no part of the batch is performed', async () => {
    const before = server.seen.length;
    const call = (id: number) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'find', arguments: { who: 'x' } },
    });
    const answer = await post([call(1), call(2)]);
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { error: { code: -32600, data: { reason_code: 'mcp.batch_refused' } } },
    ]);
    expect(server.seen).toHaveLength(before);
  });

  it('is refused with a specific reason if it is the HTTP+SSE transport of 2024-11-05', async () => {
    const before = server.seen.length;
    const client = new Client({ name: 'agent', version: '1' });
    const transport = new SSEClientTransport(url, { fetch: bench.fetch });
    await expect(client.connect(transport as Parameters<Client['connect']>[0])).rejects.toThrow(
      /405/,
    );
    const answer = await bench.fetch(url, { headers: { accept: 'text/event-stream' } });
    expect([answer.status, await answer.json()]).toMatchObject([
      405,
      { reason_code: 'mcp.transport_unsupported', error: expect.stringContaining('Streamable') },
    ]);
    expect(server.seen).toHaveLength(before);
  });
});
