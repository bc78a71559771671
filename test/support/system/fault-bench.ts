import { freshDatabase } from '../programs/postgres.ts';
import { until } from '../programs/processes.ts';
import { startRedis } from '../programs/redis.ts';
import { type AgentClient, agentClient } from '../sidecar/agent-client.ts';
import { startUpstream, type Upstream } from '../sidecar/upstream.ts';
import { type Separate, type SeparateOptions, startSeparate } from './separate.ts';

/**
 * Separate processes with one bound tool, and a policy that allows this tool up to an amount of
 * 100.
 */
export interface FaultBench {
  readonly separate: Separate;
  readonly upstream: Upstream;
  readonly agent: AgentClient;
  readonly redis: Awaited<ReturnType<typeof startRedis>>;
  readonly database: Awaited<ReturnType<typeof freshDatabase>>;
  readonly url: string;
  /** Calls the bound tool. */
  pay(amount: unknown, headers?: Record<string, string>): ReturnType<AgentClient['post']>;
  /** Returns the ledger's events that match a query. */
  events(query?: string): Promise<LedgerEvent[]>;
  untilSealed(
    what: string,
    holds: (events: LedgerEvent[]) => boolean,
    timeoutMs?: number,
  ): Promise<LedgerEvent[]>;
  close(): Promise<void>;
}

export interface LedgerEvent {
  readonly position: number;
  readonly id: string;
  readonly type: string;
  readonly tool?: string;
  readonly resource?: string;
  readonly decision?: string;
  readonly reason_code?: string;
  readonly data: Record<string, unknown>;
}

export async function startFaultBench(
  sidecarEnv: Readonly<Record<string, string>> = {},
  databaseUrl?: string,
  options: Pick<SeparateOptions, 'sidecarDir'> = {},
): Promise<FaultBench> {
  const database =
    databaseUrl === undefined ? await freshDatabase() : { url: databaseUrl, drop: async () => {} };
  const redis = await startRedis();
  const upstream = await startUpstream();
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv,
    ...options,
  });
  const { api } = separate;
  const host = `127.0.0.1:${upstream.port}`;
  await api('PUT', '/v1/runtime/bindings/pay', {
    protocol: 'http',
    host,
    method: 'POST',
    path: '/pay',
    body: 'json',
    tool: 'bank.pay',
    resource: 'account:main',
  });
  await api('POST', '/v1/policies', { name: 'pay', publish: true, rules_json: payPolicy });
  const agent = agentClient(separate.proxyUrl);
  const url = `http://${host}/pay`;
  const bench: FaultBench = {
    separate,
    upstream,
    agent,
    redis,
    database,
    url,
    pay: (amount, headers) => agent.post(url, { amount }, headers),
    async events(query = '') {
      const events: LedgerEvent[] = [];
      let cursor = '';
      do {
        const { body, status } = await api(
          'GET',
          `/v1/evidence/events?limit=1000${query}${cursor && `&cursor=${cursor}`}`,
        );
        if (status !== 200) throw new Error(JSON.stringify(body));
        events.push(...(body.events as LedgerEvent[]));
        cursor = (body.next_cursor as string | null) ?? '';
      } while (cursor !== '');
      return events;
    },
    async untilSealed(what, holds, timeoutMs) {
      let events: LedgerEvent[] = [];
      await until(
        what,
        async () => {
          events = await bench.events();
          return holds(events);
        },
        timeoutMs,
      );
      return events;
    },
    async close() {
      await agent.close();
      await separate.close();
      await upstream.close();
      await redis.stop();
      await database.drop();
    },
  };
  await until('the policy is in force', async () => (await bench.pay(1)).status === 200);
  return bench;
}

const payPolicy = {
  id: 'pay',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'pay.small',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '<=', value: 100 },
        ],
      },
    },
  ],
};
