import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { fetch, ProxyAgent, WebSocket } from 'undici';
import { expect } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { answerOnce, connectWithHello } from '../../support/sidecar/client-hello.ts';
import { Cleanup, listening } from '../../support/sidecar/proxy.ts';
import { startWebSocketEcho, type WebSocketEcho } from '../../support/sidecar/websocket-echo.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

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

const events = { 'content-type': 'text/event-stream' };

/** Responds as an endless feed, or as an MCP server whose tool `watch` never ends. */
function answer(
  feeds: Set<ServerResponse>,
  req: IncomingMessage,
  res: ServerResponse,
  body: string,
): void {
  if (req.url === '/feed/b?short=1') {
    res.writeHead(200).end('{}');
  } else if (req.url?.startsWith('/feed/') === true) {
    feeds.add(res);
    res.once('close', () => feeds.delete(res));
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

/** Returns the result of a stream, which resolves when the stream ends; `isOpen` returns true until then. */
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

/** Opens every kind of long-lived connection through one sidecar. */
export class OpenStreams {
  readonly bench: FaultBench;
  readonly echo: WebSocketEcho;
  /** Feeds that the upstream is still sending. */
  readonly upstreamFeeds = new Set<ServerResponse>();
  readonly #dispatcher: ProxyAgent;

  readonly #cleanup: Cleanup;
  /** Host and port of a passthrough server. */
  readonly #model: string;

  private constructor(
    bench: FaultBench,
    echo: WebSocketEcho,
    { cleanup, modelPort }: { readonly cleanup: Cleanup; readonly modelPort: number },
  ) {
    this.#cleanup = cleanup;
    this.#model = `localhost:${modelPort}`;
    this.bench = bench;
    this.echo = echo;
    this.#dispatcher = new ProxyAgent({ uri: bench.separate.proxyUrl, proxyTunnel: false });
    bench.upstream.behave((req, res, body) => answer(this.upstreamFeeds, req, res, body));
  }

  static async start(): Promise<OpenStreams> {
    const bench = await startFaultBench({ SALLYPORT_HOLD_MS: '60000' });
    const cleanup = new Cleanup();
    const modelPort = await listening(createServer(answerOnce), cleanup);
    const streams = new OpenStreams(bench, await startWebSocketEcho(), { cleanup, modelPort });
    await streams.#bind();
    return streams;
  }

  async close(): Promise<void> {
    await this.#dispatcher.close();
    await this.echo.close();
    await this.bench.close();
    await this.#cleanup.run();
  }

  async #bind(): Promise<void> {
    const { bench, echo } = this;
    const { api } = bench.separate;
    const host = `127.0.0.1:${bench.upstream.port}`;
    const get = { protocol: 'http', host, method: 'GET' };
    const bindings = {
      a: { ...get, path: '/feed/a', tool: 'feed.a' },
      b: { ...get, path: '/feed/b', tool: 'feed.b' },
      large: { ...get, path: '/large', tool: 'bank.large', method: 'POST', body: 'json' },
      chat: { ...get, host: `127.0.0.1:${echo.port}`, path: '/ws', tool: 'chat.ws', upgrade: true },
      crm: { protocol: 'mcp', host, path: '/mcp' },
      model: { protocol: 'passthrough', host: this.#model },
    };
    for (const [name, body] of Object.entries(bindings)) {
      const put = await api('PUT', `/v1/runtime/bindings/${name}`, body);
      expect(put.status).toBe(200);
    }
    await api('POST', '/v1/policies', { name: 'streams', publish: true, rules_json: policy });
    await until('everything is in force', async () => (await this.feed('b', true)).status === 200);
  }

  /** Requests an endless event stream, or, with `isShort`, a response that ends at once. */
  async feed(name: 'a' | 'b', isShort = false) {
    const query = isShort ? '?short=1' : '';
    const url = `http://127.0.0.1:${this.bench.upstream.port}/feed/${name}${query}`;
    return fetch(url, { dispatcher: this.#dispatcher });
  }

  async openFeed(name: 'a' | 'b') {
    const response = await this.feed(name);
    const reader = response.body?.getReader();
    expect(response.status).toBe(200);
    await reader?.read();
    return watched(
      (async () => {
        while ((await reader?.read())?.done === false);
      })(),
    );
  }

  async mcpClient(onNote: () => void = () => {}): Promise<Client> {
    const client = new Client({ name: 'agent', version: '1' });
    client.fallbackNotificationHandler = async () => onNote();
    const url = new URL(`http://127.0.0.1:${this.bench.upstream.port}/mcp`);
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: ((input: string | URL, init: object) =>
        fetch(input, { ...init, dispatcher: this.#dispatcher })) as never,
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

  async openWatch() {
    let noted = () => {};
    const first = new Promise<void>((resolve) => {
      noted = resolve;
    });
    const client = await this.mcpClient(() => noted());
    const broken = new Promise<never>((_resolve, reject) => {
      client.onerror = reject;
    });
    const call = client.callTool({ name: 'watch', arguments: {} });
    call.catch(() => {});
    await first;
    return { ...watched(Promise.race([call, broken])), close: () => client.close() };
  }

  async openSocket(): Promise<ReturnType<typeof watched>> {
    const socket = new WebSocket(`ws://127.0.0.1:${this.echo.port}/ws`, {
      dispatcher: new ProxyAgent({ uri: this.bench.separate.proxyUrl }),
    });
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve, { once: true });
      socket.addEventListener('error', reject, { once: true });
    });
    return watched(new Promise((resolve) => socket.addEventListener('close', resolve)));
  }

  async openTunnel(): Promise<ReturnType<typeof watched> & { socket: Socket; head: string }> {
    const socket = connect(Number(new URL(this.bench.separate.proxyUrl).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(connectWithHello(this.#model, 'localhost'), 'latin1');
    const [head] = (await once(socket, 'data')) as [Buffer];
    const ended = new Promise((resolve) => socket.once('close', resolve));
    return { socket, head: head.toString().split('\r\n')[0] ?? '', ...watched(ended) };
  }

  /** Makes a call that waits for a human. */
  async openHold() {
    const { separate, upstream, agent } = this.bench;
    const pending = async () => {
      const { body } = await separate.api('GET', '/v1/approvals?status=pending');
      return (body.approvals as readonly { readonly id: string }[]).map(({ id }) => id);
    };
    const before = await pending();
    const url = `http://127.0.0.1:${upstream.port}/large`;
    const answered = agent.post(url, { amount: Math.random() });
    // An approval of an earlier test may also be pending.
    await until('it is held', async () => (await pending()).some((id) => !before.includes(id)));
    return { ...watched(answered), answered };
  }

  async openAll() {
    return {
      a: await this.openFeed('a'),
      b: await this.openFeed('b'),
      watch: await this.openWatch(),
      socket: await this.openSocket(),
      tunnel: await this.openTunnel(),
      hold: await this.openHold(),
    };
  }
}
