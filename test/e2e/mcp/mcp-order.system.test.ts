import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

const sessions = 40;
const secret = 'order-of-arrival-5b1e';

let bench: McpBench;
let seen: string[];
let url: URL;
beforeAll(async () => {
  bench = await startMcpBench();
  seen = [];
  url = await bench.serve('asking', recordingServer(seen));
  // The server has a credential, because streams and calls once overtook each other while a credential was
  // fetched.
  const stored = await bench.api('POST', '/v1/credentials', {
    name: 'asking',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['mcp.asking.**', 'mcp.asking/**'], hosts: [url.host] },
  });
  expect(stored.status).toBe(200);
});
afterAll(() => bench?.close());

/** Returns a server that records the order of requests in each session, opens streams and answers calls. */
function recordingServer(seen: string[]): Server {
  return createServer((req, res) => {
    seen.push(`${req.method} ${sessionOf(req)}`);
    if (req.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.flushHeaders();
      return;
    }
    req.resume().on('end', () => {
      const result = { content: [{ type: 'text', text: 'done' }] };
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));
    });
  });
}

const sessionOf = (req: IncomingMessage) => String(req.headers['mcp-session-id']);

const call = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'ask', arguments: {} },
});

function requestText(method: 'GET' | 'POST', session: string): string {
  const body = method === 'POST' ? call : '';
  return [
    `${method} ${url.href} HTTP/1.1`,
    `host: ${url.host}`,
    `mcp-session-id: ${session}`,
    'mcp-protocol-version: 2025-11-25',
    'accept: application/json, text/event-stream',
    ...(body === '' ? [] : ['content-type: application/json', `content-length: ${body.length}`]),
    '',
    body,
  ].join('\r\n');
}

async function open(): Promise<Socket> {
  const { hostname, port } = new URL(bench.separate.proxyUrl);
  const socket = connect(Number(port), hostname).on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

const answered = (socket: Socket) =>
  new Promise<string>((resolve) => socket.once('data', (chunk) => resolve(chunk.toString())));

describe('a call of an MCP session', () => {
  it('reaches the server after a stream that the client opened before the call', async () => {
    for (let index = 0; index < sessions; index++) {
      const [stream, caller] = [await open(), await open()];
      const answers = [answered(stream), answered(caller)];
      // A client sends both concurrently, on two connections.
      stream.write(requestText('GET', `s${index}`));
      await new Promise((resolve) => setImmediate(resolve));
      caller.write(requestText('POST', `s${index}`));
      for (const answer of await Promise.all(answers)) expect(answer).toMatch(/^HTTP\/1\.1 200 /);
      stream.destroy();
      caller.destroy();
    }
    const came = Array.from({ length: sessions }, (_, index) =>
      seen.filter((one) => one.endsWith(` s${index}`)),
    );
    expect(came).toEqual(came.map((_, index) => [`GET s${index}`, `POST s${index}`]));
  });

  it('does not wait for a stream that could not be opened', async () => {
    const closed = new URL('http://127.0.0.1:2/mcp');
    await bench.bind('nowhere', { protocol: 'mcp', host: closed.host, path: '/mcp' });
    const requests = ['GET', 'POST', 'POST'] as const;
    const sent = requests.map(async (method) => {
      const answer = await bench.fetch(closed, {
        method,
        headers: {
          'mcp-session-id': 'lost',
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        ...(method === 'POST' ? { body: call } : {}),
      });
      return answer.status;
    });
    // A tool call is refused in its result, with status 200.
    expect(await Promise.all(sent)).toEqual([502, 200, 200]);
    await until('both calls are recorded', async () => {
      const events = await bench.events('&tool=mcp.nowhere.ask');
      return events.filter(({ type }) => type === 'execution.result').length === 2;
    });
  });
});
