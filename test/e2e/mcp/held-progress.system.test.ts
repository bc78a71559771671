import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  Client as Client2,
  StreamableHTTPClientTransport as Transport2,
} from '@modelcontextprotocol/client';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { referenceServer } from '../../conformance/reference/server.ts';
import { until } from '../../support/programs/processes.ts';
import { pythonWith } from '../../support/programs/python.ts';
import { json, type RawCall, rawMcpServer } from '../../support/sidecar/mcp-raw-server.ts';
import { sessionServer } from '../../support/sidecar/mcp-session-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

const gate = {
  id: 'gate',
  version: 1,
  rules: [
    {
      name: 'gated',
      decision: 'require_approval',
      reason: 'test.gated',
      when: {
        all: [{ path: 'tool.name', operator: 'matches', value: '\\.(find|test_simple_text|raw)$' }],
      },
    },
  ],
};

let bench: McpBench;
let sessions: URL;
let stateless: URL;
let raw: URL;
let python: string;
const rawServer = rawMcpServer();
// The first run installs Python packages.
beforeAll(async () => {
  python = await pythonWith(join(import.meta.dirname, '../clients/requirements.txt'));
  bench = await startMcpBench({ SALLYPORT_HOLD_MS: '60000' });
  sessions = await bench.serve('crm', sessionServer().http);
  stateless = await bench.serve('reference', referenceServer('stateless'));
  raw = await bench.serve('raw', rawServer.http);
  await bench.api('POST', '/v1/policies', { name: 'gate', publish: true, rules_json: gate });
  await until('the gate is active', async () => {
    const answer = await callRaw(raw, { accept: 'application/json', prefer: 'wait=0' });
    return answer.text.includes('approval.pending');
  });
}, 600_000);
afterAll(() => bench?.close());

/** Sends one `tools/call` without the SDK and without a session. */
async function callRaw(
  url: URL,
  headers: Record<string, string>,
  params: Record<string, unknown> = {},
) {
  const response = await bench.fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'tools/call',
      params: { name: 'raw', arguments: {}, ...params },
    }),
  });
  const { status } = response;
  return { status, headers: response.headers, text: await response.text() };
}

const eventStream = { accept: 'application/json, text/event-stream' };
const withToken = { _meta: { progressToken: 'p1' } };

/** Decides the only pending approval for a tool. */
async function decide(tool: string, action: 'approve' | 'deny'): Promise<void> {
  let id = 0;
  const isWaiting = async () => {
    const { body } = await bench.api('GET', '/v1/approvals?status=pending');
    const open = body.approvals as { readonly id: number; readonly tool: string }[];
    id = open.find((one) => one.tool === tool)?.id ?? 0;
    return id > 0;
  };
  // A client in its own process starts slowly on a busy machine.
  await until(`an approval of ${tool} waits`, isWaiting, 110_000);
  const { status, body } = await bench.api('POST', `/v1/approvals/${id}/decide`, {
    action,
    comment: 'decided',
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
}

interface Told {
  readonly progress: number;
  readonly message?: string | undefined;
}

describe('a held MCP call', () => {
  const clients = [
    {
      name: 'SDK 1.x with a session',
      tool: 'find',
      server: 'crm',
      async call(onprogress: (told: Told) => void) {
        const client = new Client1({ name: 'agent', version: '1' });
        const transport = new Transport1(sessions, { fetch: bench.fetch });
        await client.connect(transport as Parameters<Client1['connect']>[0]);
        const call = { name: 'find', arguments: { who: 'Ada' } };
        const result = await client.callTool(call, undefined, { onprogress });
        await client.close();
        return result;
      },
    },
    {
      name: 'SDK 2.x without a session',
      tool: 'test_simple_text',
      server: 'reference',
      async call(onprogress: (told: Told) => void) {
        const client = new Client2(
          { name: 'agent', version: '1' },
          { versionNegotiation: { mode: { pin: '2026-07-28' } } },
        );
        await client.connect(new Transport2(stateless, { fetch: bench.fetch }));
        const result = await client.callTool({ name: 'test_simple_text' }, { onprogress });
        await client.close();
        return result;
      },
    },
  ];

  for (const { name, tool, server, call } of clients) {
    it(`reports progress to ${name} until it is approved, and then returns its result`, async () => {
      const progress: Told[] = [];
      const result = call((told) => progress.push(told));
      await until('progress is reported twice', async () => progress.length >= 2);
      await decide(`mcp.${server}.${tool}`, 'approve');
      expect((await result).isError ?? false).toBe(false);
      expect(progress[0]?.message).toMatch(/^Waiting for a human decision \(approval \d+\)\.$/);
      const values = progress.map((told) => told.progress);
      expect(values).toEqual([...new Set(values)].sort((a, b) => a - b));
      expect(Math.max(...values)).toBeLessThan(1);
    });

    it(`returns a denial to ${name} as a tool result`, async () => {
      const progress: Told[] = [];
      const result = call((told) => progress.push(told));
      await until('progress is reported', async () => progress.length > 0);
      await decide(`mcp.${server}.${tool}`, 'deny');
      const text = JSON.stringify(await result);
      expect(text).toContain('approval.denied');
      expect(text).toContain('"isError":true');
    });
  }

  it('reports progress to the official Python client', async () => {
    const program = join(import.meta.dirname, '../clients/mcp_progress.py');
    const env = { PATH: process.env.PATH, ...bench.proxyEnv };
    const run = promisify(execFile)(python, [program, sessions.href, 'find'], { env });
    run.catch(() => {});
    await decide('mcp.crm.find', 'approve');
    const { progress, result } = JSON.parse((await run).stdout);
    expect(progress[0]?.[1]).toContain('Waiting for a human decision');
    expect(JSON.stringify(result)).toContain('Grace');
  });

  it('is answered with one event if the server responds with JSON', async () => {
    rawServer.behave(({ id }: RawCall, res) =>
      json(res, `{"jsonrpc":"2.0",\r\n"id":${String(id)},\n"result":{"content":[]}}`),
    );
    const answer = callRaw(raw, eventStream, withToken);
    await decide('mcp.raw.raw', 'approve');
    const { status, headers, text } = await answer;
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/event-stream');
    const events = text.split('\n\n').filter((event) => event !== '');
    const messages = events.map((event) => JSON.parse(event.split('data: ')[1] ?? ''));
    expect(messages[0]).toMatchObject({
      method: 'notifications/progress',
      params: { progressToken: 'p1' },
    });
    expect(messages.at(-1)).toEqual({ jsonrpc: '2.0', id: 7, result: { content: [] } });
  });

  it('is answered with an error message if the server responds with an HTTP error status', async () => {
    rawServer.behave((_call, res) => res.writeHead(404).end('Session not found'));
    const answer = callRaw(raw, eventStream, withToken);
    await decide('mcp.raw.raw', 'approve');
    expect((await answer).text).toMatch(/"id":7,"error":\{"code":-32603,.*HTTP 404/);
  });

  it('is answered with an error message if the server closes the connection without a response', async () => {
    rawServer.behave((_call, res) => res.destroy());
    const answer = callRaw(raw, eventStream, withToken);
    await decide('mcp.raw.raw', 'approve');
    expect((await answer).text).toMatch(/"id":7,.*upstream\.reset/);
  });

  it.each([
    ['a call without a progress token', eventStream, {}],
    ['a client that accepts JSON only', { accept: 'application/json' }, withToken],
    [
      'a client that refuses event streams',
      { accept: 'application/json, text/event-stream;q=0' },
      withToken,
    ],
  ])('is answered with plain JSON, without progress, for %s', async (_name, headers, params) => {
    const {
      status,
      headers: answered,
      text,
    } = await callRaw(raw, { ...headers, prefer: 'wait=0' }, params);
    expect(status).toBe(200);
    expect(answered.get('content-type')).toBe('application/json');
    expect(answered.get('preference-applied')).toBe('wait=0');
    expect(text).not.toContain('notifications/progress');
  });

  it('ends when a kill switch is armed', async () => {
    const answer = callRaw(raw, eventStream, withToken);
    await until('the call is held', async () => {
      const { body } = await bench.api('GET', '/v1/approvals?status=pending');
      return JSON.stringify(body).includes('mcp.raw.raw');
    });
    await bench.api('POST', '/v1/runtime/kill-switches', {
      kind: 'block_tool',
      tool: 'mcp.raw.*',
      reason: 'test',
    });
    expect((await answer).text).toMatch(/"id":7,.*runtime\.kill_switch/);
  });
});
