import fs from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { ProxyAgent, request } from 'undici';
import { freshDatabase } from '../programs/postgres.ts';
import { until } from '../programs/processes.ts';
import { startRedis } from '../programs/redis.ts';
import { Cleanup, listening, temporaryFolder, testAuthority } from '../sidecar/proxy.ts';
import { type Separate, startSeparate } from './separate.ts';

/**
 * A control plane and a sidecar as processes, with upstreams over plain HTTP and over TLS, each
 * with and without bindings.
 */
export interface TrafficStage {
  readonly cleanup: Cleanup;
  readonly separate: Separate;
  readonly databaseUrl: string;
  /** Bound upstreams: `POST /pay` is `bank.pay`, and MCP at `/mcp` is `mcp.crm.*`. */
  readonly bound: { readonly http: string; readonly https: string };
  /** Upstreams without a binding: their calls are `http.<method>.127.0.0.1`. */
  readonly open: { readonly http: string; readonly https: string };
  /** A client that sends requests through the sidecar and trusts the sidecar's authority. */
  readonly agent: ProxyAgent;
  readonly proxyPort: number;
  /** Returns the resident memory of the sidecar in MiB. */
  rss(): number;
  /** Returns a metric of the sidecar, or 0 if the sidecar does not report it. */
  metric(name: string): Promise<number>;
  close(): Promise<void>;
}

/**
 * Time that is much longer than clients keep idle connections, so that no request is sent on a
 * connection that is closing.
 */
const keepAliveTimeout = 65_000;

const opaque = ['get', 'put', 'post'].map((method) => `http.${method}.127.0.0.1`);

const policy = {
  id: 'traffic',
  version: 1,
  rules: [
    {
      name: 'small payments',
      decision: 'allow',
      reason: 'pay.small',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '<=', value: 100 },
        ],
      },
    },
    {
      name: 'large payments',
      decision: 'require_approval',
      reason: 'pay.large',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '>', value: 10_000 },
        ],
      },
    },
    {
      name: 'all else that is tested',
      decision: 'allow',
      reason: 'traffic.open',
      when: {
        all: [{ path: 'tool.name', operator: 'in', value: [...opaque, 'mcp.crm.lookup'] }],
      },
    },
  ],
};

export async function startTrafficStage(
  listener: RequestListener,
  sidecarEnv: Readonly<Record<string, string>> = {},
): Promise<TrafficStage> {
  const cleanup = new Cleanup();
  const authority = testAuthority(cleanup);
  const caFile = join(temporaryFolder(cleanup), 'upstreams.pem');
  fs.writeFileSync(caFile, authority.certPem);
  const plain = () => listening(createServer({ keepAliveTimeout }, listener), cleanup);
  const { key, cert } = authority.leafFor('127.0.0.1');
  const secure = () =>
    listening(createTlsServer({ key, cert, keepAliveTimeout }, listener), cleanup);
  const at = async (scheme: string, port: Promise<number>) => `${scheme}://127.0.0.1:${await port}`;
  const bound = { http: await at('http', plain()), https: await at('https', secure()) };
  const open = { http: await at('http', plain()), https: await at('https', secure()) };
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { NODE_EXTRA_CA_CERTS: caFile, ...sidecarEnv },
    isLogFiled: true,
  });
  cleanup.add(() => separate.close());
  await bind(separate, bound);
  const agent = new ProxyAgent({
    uri: separate.proxyUrl,
    proxyTunnel: false,
    requestTls: { ca: fs.readFileSync(separate.caPath, 'utf8') },
    connections: 64,
  });
  cleanup.add(() => agent.destroy());
  await until('the policy is in force', async () => {
    const { body, statusCode } = await request(`${bound.http}/pay`, {
      dispatcher: agent,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"amount":1}',
    });
    await body.dump();
    return statusCode === 200;
  });
  return {
    cleanup,
    separate,
    databaseUrl: database.url,
    bound,
    open,
    agent,
    proxyPort: Number(new URL(separate.proxyUrl).port),
    rss: () => rssMiB(separate.sidecar.pid),
    async metric(name) {
      const text = await (await fetch(`${separate.adminUrl}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(`${name} `));
      return Number(line?.slice(name.length + 1) ?? 0);
    },
    close: () => cleanup.run(),
  };
}

async function bind({ api }: Separate, bound: TrafficStage['bound']): Promise<void> {
  for (const [name, url] of Object.entries(bound)) {
    const { host } = new URL(url);
    await accepted(
      api('PUT', `/v1/runtime/bindings/pay-${name}`, {
        protocol: 'http',
        host,
        method: 'POST',
        path: '/pay',
        body: 'json',
        tool: 'bank.pay',
        resource: 'account:main',
      }),
    );
  }
  const { host } = new URL(bound.http);
  await accepted(api('PUT', '/v1/runtime/bindings/crm', { protocol: 'mcp', host, path: '/mcp' }));
  await accepted(
    api('POST', '/v1/policies', { name: 'traffic', publish: true, rules_json: policy }),
  );
}

async function accepted(answer: ReturnType<Separate['api']>): Promise<void> {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(JSON.stringify(body));
}

/** Returns the resident memory of a process in MiB. */
export function rssMiB(pid: number): number {
  const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}
