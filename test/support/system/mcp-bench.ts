import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ProxyAgent, fetch as undiciFetch } from 'undici';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { until } from '../programs/processes.ts';
import { startRedis } from '../programs/redis.ts';
import type { LedgerEvent } from './fault-bench.ts';
import { type Separate, startSeparate } from './separate.ts';

/**
 * The approver is not the owner, because the owner requests the calls, and nobody can decide on
 * their own requests.
 */
export const approverKey = formatApiKey('mcpBenchApproverKey00000000000');

/** A control plane and a sidecar as processes, between MCP clients and MCP servers. */
export interface McpBench {
  readonly separate: Separate;
  readonly api: Separate['api'];
  /** A `fetch` through the sidecar, for clients that accept a `fetch` function. */
  readonly fetch: typeof fetch;
  /** The environment variables that make any client use the sidecar. */
  readonly proxyEnv: Readonly<Record<string, string>>;
  /**
   * Starts a server and binds it. Resolves with the address of its endpoint. The server is closed
   * together with the bench.
   */
  serve(name: string, server: Server, binding?: Readonly<Record<string, unknown>>): Promise<URL>;
  /**
   * Binds a host on which another program listens. Resolves when the sidecar has received the
   * binding.
   */
  bind(name: string, binding: Readonly<Record<string, unknown>>): Promise<void>;
  events(query?: string): Promise<LedgerEvent[]>;
  untilEvent(
    what: string,
    fits: (event: LedgerEvent) => boolean,
    query?: string,
  ): Promise<LedgerEvent>;
  close(): Promise<void>;
}

/** Allows everything except the tools named `…denied` and the methods of servers named `strict`. */
const rulesJson = {
  id: 'mcp',
  version: 1,
  rules: [
    { decision: 'allow', operator: '!=', value: '', reason: 'test.allowed' },
    { decision: 'deny', operator: 'matches', value: 'denied$', reason: 'test.denied' },
    { decision: 'deny', operator: 'matches', value: '^mcp\\.strict/', reason: 'test.method' },
  ].map(({ decision, reason, operator, value }) => ({
    name: reason,
    decision,
    reason,
    when: { all: [{ path: 'tool.name', operator, value }] },
  })),
};

export async function startMcpBench(
  sidecarEnv: Readonly<Record<string, string>> = {},
): Promise<McpBench> {
  const database = await freshDatabase();
  const redis = await startRedis();
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv,
    devKeys: [`${approverKey}=default:approver:tenant:anna`],
  });
  const { api, proxyUrl } = separate;
  const dispatcher = new ProxyAgent({ uri: proxyUrl, proxyTunnel: false });
  const proxied = ((url: string | URL, init: object) =>
    undiciFetch(url, { ...init, dispatcher })) as unknown as typeof fetch;
  const servers: Server[] = [];
  const bind: McpBench['bind'] = async (name, binding) => {
    const put = await api('PUT', `/v1/runtime/bindings/${name}`, binding);
    if (put.status !== 200) throw new Error(JSON.stringify(put.body));
    await until(`the sidecar knows ${name}`, async () => {
      const manifest = await proxied('http://sallyport.internal/manifest');
      const { tools } = (await manifest.json()) as { tools: { name: string }[] };
      return tools.some((one) => one.name === name);
    });
  };
  const events: McpBench['events'] = async (query = '') => {
    const { body } = await api('GET', `/v1/evidence/events?limit=1000${query}`);
    return body.events as LedgerEvent[];
  };
  await api('POST', '/v1/policies', { name: 'mcp', publish: true, rules_json: rulesJson });
  return {
    separate,
    api,
    fetch: proxied,
    proxyEnv: {
      HTTP_PROXY: proxyUrl,
      http_proxy: proxyUrl,
      NO_PROXY: '',
      no_proxy: '',
      NODE_USE_ENV_PROXY: '1',
    },
    async serve(name, server, binding = {}) {
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      await bind(name, { protocol: 'mcp', host, path: '/mcp', ...binding });
      return new URL(`http://${host}/mcp`);
    },
    bind,
    events,
    async untilEvent(what, fits, query) {
      let found: LedgerEvent | undefined;
      await until(what, async () => {
        found = (await events(query)).find(fits);
        return found !== undefined;
      });
      if (found === undefined) throw new Error(`${what} did not come about`);
      return found;
    },
    async close() {
      for (const server of servers) {
        server.closeAllConnections();
        server.close();
      }
      await dispatcher.destroy();
      await separate.close();
      await redis.stop();
      await database.drop();
    },
  };
}
