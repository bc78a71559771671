import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import pg from 'pg';
import { fetch, ProxyAgent, WebSocket } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FaultBench, startFaultBench } from '../support/fault-bench.ts';
import { until } from '../support/processes.ts';
import { startWebSocketEcho, type WebSocketEcho } from '../support/websocket-echo.ts';

const rules = [
  { tools: ['feed.a', 'feed.b', 'chat.ws', 'mcp.crm.watch', 'mcp.crm.read'], decision: 'allow' },
  { tools: ['bank.large'], decision: 'require_approval' },
];
const policy = {
  id: 'streams',
  version: 1,
  rules: rules.map(({ tools, decision }) => ({
    name: decision,
    decision,
    reason: `test.${decision}`,
    when: { all: [{ path: 'tool.name', operator: 'in', value: tools }] },
  })),
};

let bench: FaultBench;
let echo: WebSocketEcho;
let dispatcher: ProxyAgent;
beforeAll(async () => {
  bench = await startFaultBench({ SALLYPORT_HOLD_MS: '60000' });
  echo = await startWebSocketEcho();
  dispatcher = new ProxyAgent({ uri: bench.separate.proxyUrl, proxyTunnel: false });
  bench.upstream.behave(answer);
  const { api } = bench.separate;
  const host = `127.0.0.1:${bench.upstream.port}`;
  const get = { protocol: 'http', host, method: 'GET' };
  const bindings = {
    a: { ...get, path: '/feed/a', tool: 'feed.a' },
    b: { ...get, path: '/feed/b', tool: 'feed.b' },
    large: { ...get, path: '/large', tool: 'bank.large', method: 'POST', body: 'json' },
    chat: { ...get, host: `127.0.0.1:${echo.port}`, path: '/ws', tool: 'chat.ws', upgrade: true },
    crm: { protocol: 'mcp', host, path: '/mcp' },
    model: { protocol: 'passthrough', host: `localhost:${bench.upstream.port}` },
  };
  for (const [name, body] of Object.entries(bindings)) {
    const put = await api('PUT', `/v1/runtime/bindings/${name}`, body);
    expect(put.status).toBe(200);
  }
  await api('POST', '/v1/policies', { name: 'streams', publish: true, rules_json: policy });
  await until('everything is in force', async () => (await feed('b', true)).status === 200);
}, 90_000);
afterAll(async () => {
  await dispatcher?.close();
  await echo?.close();
  await bench?.close();
});

const events = { 'content-type': 'text/event-stream' };

const upstreamFeeds = new Set<ServerResponse>();

/** A feed that goes on until it is broken off, and an MCP server whose tool `watch` does. */
function answer(req: IncomingMessage, res: ServerResponse, body: string): void {
  if (req.url === '/feed/b?short=1') {
    res.writeHead(200).end('{}');
  } else if (req.url?.startsWith('/feed/') === true) {
    upstreamFeeds.add(res);
    res.once('close', () => upstreamFeeds.delete(res));
    res.writeHead(200, events).write('data: 1\n\n');
  } else if (req.url === '/mcp' && req.method === 'POST') {
    answerMcp(JSON.parse(body) as { id?: number; method: string; params?: never }, res);
  } else {
    res.writeHead(req.url === '/mcp' ? 405 : 200).end();
  }
}

function answerMcp(
  { id, method, params }: { id?: number; method: string; params?: { name?: string } },
  res: ServerResponse,
): void {
  if (id === undefined) {
    res.writeHead(202).end();
    return;
  }
  if (params?.name === 'watch') {
    const note = {
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { level: 'info', data: 1 },
    };
    res.writeHead(200, events).write(`data: ${JSON.stringify(note)}\n\n`);
    return;
  }
  const result =
    method === 'initialize'
      ? {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'crm', version: '1' },
        }
      : { content: [{ type: 'text', text: 'read' }] };
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

async function feed(name: 'a' | 'b', isShort = false) {
  const query = isShort ? '?short=1' : '';
  const url = `http://127.0.0.1:${bench.upstream.port}/feed/${name}${query}`;
  return fetch(url, { dispatcher });
}

/** Resolves, with what became of it, when a stream has ended; `isOpen` until then. */
function watched(ended: Promise<unknown>): {
  readonly isOpen: () => boolean;
  ended: Promise<string>;
} {
  let isOpen = true;
  const outcome = ended.then(
    () => 'whole',
    (error: Error) => `broken: ${error.message}`,
  );
  void outcome.then(() => {
    isOpen = false;
  });
  return { isOpen: () => isOpen, ended: outcome };
}

async function openFeed(name: 'a' | 'b') {
  const response = await feed(name);
  const reader = response.body?.getReader();
  expect(response.status).toBe(200);
  await reader?.read();
  return watched(
    (async () => {
      while ((await reader?.read())?.done === false);
    })(),
  );
}

async function mcpClient(onNote: () => void = () => {}): Promise<Client> {
  const client = new Client({ name: 'agent', version: '1' });
  client.fallbackNotificationHandler = async () => onNote();
  const url = new URL(`http://127.0.0.1:${bench.upstream.port}/mcp`);
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: ((input: string | URL, init: object) => fetch(input, { ...init, dispatcher })) as never,
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return client;
}

async function openWatch() {
  let noted = () => {};
  const first = new Promise<void>((resolve) => {
    noted = resolve;
  });
  const client = await mcpClient(() => noted());
  const broken = new Promise<never>((_resolve, reject) => {
    client.onerror = reject;
  });
  const call = client.callTool({ name: 'watch', arguments: {} });
  call.catch(() => {});
  await first;
  return { ...watched(Promise.race([call, broken])), close: () => client.close() };
}

async function openSocket(): Promise<ReturnType<typeof watched>> {
  const socket = new WebSocket(`ws://127.0.0.1:${echo.port}/ws`, {
    dispatcher: new ProxyAgent({ uri: bench.separate.proxyUrl }),
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', reject, { once: true });
  });
  return watched(new Promise((resolve) => socket.addEventListener('close', resolve)));
}

async function openTunnel(): Promise<
  ReturnType<typeof watched> & { socket: Socket; head: string }
> {
  const target = `localhost:${bench.upstream.port}`;
  const socket = connect(Number(new URL(bench.separate.proxyUrl).port), '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  const [head] = (await once(socket, 'data')) as [Buffer];
  const ended = new Promise((resolve) => socket.once('close', resolve));
  return { socket, head: head.toString().split('\r\n')[0] ?? '', ...watched(ended) };
}

/** A call that waits for a human, once it does. */
async function openHold() {
  const url = `http://127.0.0.1:${bench.upstream.port}/large`;
  const answered = bench.agent.post(url, { amount: Math.random() });
  await until('it is held', async () => {
    const { body } = await bench.separate.api('GET', '/v1/approvals?status=pending');
    return JSON.stringify(body).includes('bank.large');
  });
  return { ...watched(answered), answered };
}

async function openAll() {
  return {
    a: await openFeed('a'),
    b: await openFeed('b'),
    watch: await openWatch(),
    socket: await openSocket(),
    tunnel: await openTunnel(),
    hold: await openHold(),
  };
}

async function arm(body: object): Promise<string> {
  const answer = await bench.separate.api('POST', '/v1/runtime/kill-switches', {
    reason: 'incident 12',
    ...body,
  });
  expect(answer.status).toBe(201);
  return String(answer.body.id);
}
const disarm = (id: string) => bench.separate.api('DELETE', `/v1/runtime/kill-switches/${id}`);

const endedByKillSwitch = (tool: string, count = 1) =>
  bench.untilSealed(
    `${count} outcomes of ${tool}`,
    (all) =>
      all.filter(
        (event) =>
          event.type === 'execution.result' &&
          event.tool === tool &&
          event.reason_code === 'runtime.kill_switch',
      ).length === count,
  );

describe('arming a kill switch', () => {
  it('ends what is open of that tool, one by one, and nothing else; each end is sealed', async () => {
    const open = await openAll();
    const tools = {
      a: 'feed.a',
      watch: 'mcp.crm.watch',
      socket: 'chat.ws',
      tunnel: 'passthrough.model',
      hold: 'bank.large',
    } as const;
    const ids: string[] = [];
    const left = new Set(Object.keys(open) as (keyof typeof open)[]);
    for (const [name, tool] of Object.entries(tools) as [keyof typeof tools, string][]) {
      ids.push(await arm({ kind: 'block_tool', tool }));
      await open[name].ended;
      left.delete(name);
      for (const other of left)
        expect([name, other, open[other].isOpen()]).toEqual([name, other, true]);
    }
    expect([...left]).toEqual(['b']);
    // At the other end, too: only b's feed is still being sent.
    await until('the feed of a is over upstream', () => upstreamFeeds.size === 1);
    await until('the WebSocket is over upstream', () => echo.open() === 0);
    expect(await open.a.ended).toMatch(/^broken/);
    expect(await open.watch.ended).toMatch(/^broken/);
    expect(await open.hold.answered).toMatchObject({
      status: 403,
      body: { decision: 'deny', reason_code: 'runtime.kill_switch' },
    });
    for (const tool of Object.values(tools)) {
      if (tool !== 'bank.large') await endedByKillSwitch(tool);
    }
    await bench.untilSealed('the held call’s denial', (all) =>
      all.some((one) => one.tool === 'bank.large' && one.reason_code === 'runtime.kill_switch'),
    );
    expect(bench.upstream.seen.some(({ url }) => url === '/large')).toBe(false);
    for (const id of ids) await disarm(id);
    await open.watch.close();
  }, 60_000);

  it('against the agent ends all of it; new calls are refused until it is disarmed', async () => {
    await until('disarmed', async () => {
      const { status, body } = await feed('a');
      await body?.cancel();
      return status === 200;
    });
    const open = await openAll();
    const id = await arm({ kind: 'block_agent', agent_id: bench.separate.agentId });
    await Promise.all(Object.values(open).map(({ ended }) => ended));
    expect(await open.hold.answered).toMatchObject({
      body: { reason_code: 'runtime.kill_switch' },
    });
    const refused = await feed('b', true);
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ reason_code: 'runtime.kill_switch' });
    expect((await openTunnel()).head).toContain('403');
    await expect(openSocket()).rejects.toBeDefined();
    await disarm(id);
    await until('calls go through again', async () => (await feed('b', true)).status === 200);
    const client = await mcpClient();
    expect(await client.callTool({ name: 'read' })).toMatchObject({ content: [{ text: 'read' }] });
    await client.close();
    await open.watch.close();
    expect((await bench.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
  }, 60_000);

  it('tells an MCP client in-band, and leaves its session alone', async () => {
    const client = await mcpClient();
    const id = await arm({ kind: 'block_tool', tool: 'mcp.crm.*' });
    await until('blocked', async () => (await client.callTool({ name: 'read' })).isError === true);
    expect(await client.callTool({ name: 'read' })).toMatchObject({
      isError: true,
      structuredContent: { reason_code: 'runtime.kill_switch' },
    });
    await disarm(id);
    await until('let go', async () => (await client.callTool({ name: 'read' })).isError !== true);
    await client.close();
  });

  it('that expires lets calls through when its time is over', async () => {
    const expires_at = new Date(Date.now() + 3_000).toISOString();
    await arm({ kind: 'block_tool', tool: 'feed.b', expires_at });
    await until('blocked', async () => (await feed('b', true)).status === 403);
    await until('over', async () => (await feed('b', true)).status === 200);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expires_at));
  });

  it('blocks where the tenant only watches, too', async () => {
    const database = new pg.Client({ connectionString: bench.database.url });
    await database.connect();
    const setMode = async (mode: string) => {
      await database.query('update tenant set mode = $1', [mode]);
      await database.query("update sync_section set version = version + 1 where name = 'tenant'");
    };
    const isAllowed = async (amount: number) => (await bench.pay(amount)).status === 200;
    await setMode('monitor');
    await until('nothing is refused any more', () => isAllowed(99_999));
    const id = await arm({ kind: 'block_tool', tool: 'bank.*' });
    await until('but what is blocked', async () => !(await isAllowed(1)));
    expect((await bench.pay(1)).body).toMatchObject({ reason_code: 'runtime.kill_switch' });
    await disarm(id);
    await until('disarmed', () => isAllowed(1));
    const forced = await arm({ kind: 'force_mode', mode: 'enforce' });
    await until('forced to enforce', async () => !(await isAllowed(99_999)));
    expect((await bench.pay(99_999)).body).toMatchObject({ reason_code: 'policy.no_match' });
    await disarm(forced);
    await setMode('enforce');
    await database.end();
  });

  it('that forces strict refuses what no tool record covers', async () => {
    const id = await arm({ kind: 'force_mode', mode: 'strict', tool: 'feed.b' });
    await until('forced', async () => (await feed('b', true)).status === 403);
    expect(await (await feed('b', true)).json()).toMatchObject({
      reason_code: 'tool.unregistered',
    });
    await disarm(id);
    await until('let go', async () => (await feed('b', true)).status === 200);
  });
});
