import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';
import { startRedis, type TestRedis } from '../programs/redis.ts';
import { type AgentClient, agentClient } from '../sidecar/agent-client.ts';
import { startUpstream, type Upstream } from '../sidecar/upstream.ts';

const ownerKey = formatApiKey('twoControlPlanesOwnerKey000000');
/** A key of another person, because nobody can decide on their own requests. */
const deciderKey = formatApiKey('twoControlPlanesDeciderKey0000');

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface RunningSidecar {
  readonly agent: AgentClient;
  readonly proxyUrl: string;
  program: Program;
  start(): Promise<void>;
}

/**
 * Two control planes on one Postgres and one Redis, and two sidecars of one agent. Each sidecar is
 * connected to one of the control planes.
 */
export interface TwoOfEach {
  readonly origins: readonly [string, string];
  readonly ownerKey: string;
  readonly agentId: string;
  readonly redis: TestRedis;
  readonly upstream: Upstream;
  readonly sidecars: readonly [RunningSidecar, RunningSidecar];
  /**
   * Sends a request as the tenant's owner to the control plane with this index, by default to the
   * first one. Approvals are decided as another person.
   */
  api(method: string, path: string, body?: unknown, at?: 0 | 1): Promise<Answer>;
  /** Calls the bound tool `bank.pay` through one of the sidecars. */
  pay(
    by: number,
    amount: number,
    headers?: Record<string, string>,
  ): Promise<Answer & { readonly headers: Headers }>;
  /** Returns the events of a type that are in the ledger at this moment. */
  events(type: string): Promise<readonly Record<string, unknown>[]>;
  close(): Promise<void>;
}

export async function startTwoOfEach(sidecarEnv: Record<string, string> = {}): Promise<TwoOfEach> {
  const database = await freshDatabase();
  const redis = await startRedis();
  const upstream = await startUpstream();
  const folder = fs.mkdtempSync(join(tmpdir(), 'two-of-each-'));
  const ports = [await freePort(), await freePort()] as const;
  const origins = [`http://127.0.0.1:${ports[0]}`, `http://127.0.0.1:${ports[1]}`] as const;
  const masterKey = randomBytes(32).toString('base64');
  const programs: Program[] = [];
  const shared = {
    REDIS_URL: redis.url,
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
  };
  for (const port of ports) {
    const program = startProgram('control-plane/main.ts', {
      ...shared,
      SALLYPORT_API_PORT: String(port),
      SALLYPORT_DATA_DIR: join(folder, `control-plane-${port}`),
      SALLYPORT_DEV_KEYS: `${ownerKey}=default:owner:gateway:owner,${deciderKey}=default:owner:tenant:olga`,
      SALLYPORT_MASTER_KEY: masterKey,
      SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
      DATABASE_URL: database.url,
    });
    programs.push(program);
    // Starts them one after the other, because the first one migrates the database.
    await ready(program, `http://127.0.0.1:${port}/readyz`);
  }
  const api: TwoOfEach['api'] = async (method, path, body, at = 0) => {
    const key = path.endsWith('/decide') ? deciderKey : ownerKey;
    const response = await fetch(`${origins[at]}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Answer['body'] };
  };
  const agent = await api('POST', '/v1/agents/register', { name: 'twin', capabilities: ['*.**'] });
  const agentId = String(agent.body.agent_id);
  const token = await api('POST', '/v1/sidecars/tokens', {
    agent_id: agentId,
    user_id: 'user_1',
    max_uses: 2,
  });
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
  const startSidecar = async (index: 0 | 1): Promise<RunningSidecar> => {
    const [proxyPort, adminPort] = [await freePort(), await freePort()];
    const env = {
      ...shared,
      SALLYPORT_PROXY_PORT: String(proxyPort),
      SALLYPORT_PROXY_ADMIN_PORT: String(adminPort),
      SALLYPORT_DATA_DIR: join(folder, `sidecar-${index}`),
      SALLYPORT_CONTROL_PLANE_URL: origins[index],
      SALLYPORT_ENROLMENT_TOKEN: String(token.body.token),
      ...sidecarEnv,
    };
    const launch = () => startProgram('proxy/main.ts', env);
    const proxyUrl = `http://127.0.0.1:${proxyPort}`;
    const sidecar: RunningSidecar = {
      proxyUrl,
      agent: agentClient(proxyUrl),
      program: launch(),
      async start() {
        sidecar.program = launch();
        await ready(sidecar.program, `http://127.0.0.1:${adminPort}/readyz`);
      },
    };
    await ready(sidecar.program, `http://127.0.0.1:${adminPort}/readyz`);
    return sidecar;
  };
  const sidecars = await Promise.all([startSidecar(0), startSidecar(1)]);
  const pay: TwoOfEach['pay'] = (by, amount, headers) =>
    (sidecars[by % 2] ?? sidecars[0]).agent.post(`http://${host}/pay`, { amount }, headers);
  for (const by of [0, 1]) {
    await until('the policy is in force', async () => (await pay(by, 1)).status === 200);
  }
  return {
    origins,
    ownerKey,
    agentId,
    redis,
    upstream,
    sidecars,
    api,
    pay,
    events: async (type) => (await allEvents(api)).filter((event) => event.type === type),
    async close() {
      for (const { agent, program } of sidecars) {
        await agent.close();
        await program.kill();
      }
      for (const program of programs) await program.kill();
      await upstream.close();
      await redis.stop();
      await database.drop();
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function allEvents(api: TwoOfEach['api']): Promise<Answer['body'][]> {
  const events: Answer['body'][] = [];
  let cursor = '';
  do {
    const path = `/v1/evidence/events?limit=1000${cursor && `&cursor=${cursor}`}`;
    const { body } = await api('GET', path);
    events.push(...(body.events as Answer['body'][]));
    cursor = (body.next_cursor as string | null) ?? '';
  } while (cursor !== '');
  return events;
}

async function ready(program: Program, url: string): Promise<void> {
  let ended = false;
  void program.exited().then(() => {
    ended = true;
  });
  await until(
    `${url} answers 200`,
    async () => {
      if (ended) throw new Error(`the program ended:\n${program.output()}`);
      return answersOk(url);
    },
    40_000,
  );
}

const isPay = { path: 'tool.name', operator: '==', value: 'bank.pay' };
const payPolicy = {
  id: 'pay',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'pay.small',
      when: { all: [isPay, { path: 'args.amount', operator: '<=', value: 1000 }] },
    },
    {
      name: 'large',
      decision: 'require_approval',
      reason: 'pay.large',
      approval: { grant: { max_uses: 1000, max_ttl_seconds: 86_400, scope: 'tool' } },
      when: { all: [isPay, { path: 'args.amount', operator: '>', value: 1000 }] },
    },
  ],
};
