import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../../control-plane/routes.ts';
import { type Answer, startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';
import { startRedis, type TestRedis } from '../../../support/programs/redis.ts';

const budget = 50;
const requestsPerMinute = { tenant: budget, control: 20, sidecar: 20, address: 20 };
let redis: TestRedis;
let database: Awaited<ReturnType<typeof freshDatabase>>;
const replicas: { readonly api: TestApi; readonly services: TestServices }[] = [];

beforeAll(async () => {
  redis = await startRedis();
  database = await freshDatabase();
  const shared = {
    databaseUrl: database.url,
    redisUrl: redis.url,
    masterKey: randomBytes(32),
  };
  for (const _ of [1, 2]) {
    const services = await testServices(shared);
    const api = await startApi(allRoutes(services), services, { limits: { requestsPerMinute } });
    replicas.push({ api, services });
  }
});
afterAll(async () => {
  for (const { api, services } of replicas) {
    await api.close();
    await services.close();
  }
  await redis?.stop();
  await database?.drop();
});

async function tenant(id: string): Promise<string> {
  const [first] = replicas;
  await first?.services.db.tenant.create({ data: { id, name: id } });
  return (await first?.api.key({ tenantId: id })) ?? '';
}

/** Sends the same request this many times at once, alternately to both control planes. */
const atOnce = (times: number, method: string, path: string, init: object): Promise<Answer[]> =>
  Promise.all(
    Array.from({ length: times }, async (_, n) => {
      const { api } = replicas[n % 2] ?? {};
      if (api === undefined) throw new Error('no such replica');
      return api.send(method, `/api${path}`, init);
    }),
  );

/** Parses the budget headers of a response. */
function told({ headers }: Answer) {
  const [, name, left, seconds] =
    /^"(\w+)";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
  return {
    name,
    left: Number(left),
    seconds: Number(seconds),
    policy: headers.get('ratelimit-policy'),
    retryAfter: headers.get('retry-after'),
  };
}

describe('a tenant’s budget over two control planes on one Redis', () => {
  it('allows exactly its number of requests, and each response states the remaining requests or the time to wait', async () => {
    const key = await tenant('noisy');
    const answers = await atOnce(200, 'GET', '/v1/policies', { key });
    const [served, refused] = [200, 429].map((status) =>
      answers.filter((answer) => answer.status === status),
    );
    expect([served?.length, refused?.length]).toEqual([budget, 200 - budget]);
    const places = (served ?? []).map((answer) => told(answer).left).sort((a, b) => a - b);
    expect(places).toEqual(Array.from({ length: budget }, (_, left) => left));
    for (const answer of answers) {
      const { name, policy, seconds } = told(answer);
      expect([name, policy]).toEqual(['tenant', `"tenant";q=${budget};w=60`]);
      expect(seconds).toBeGreaterThan(0);
      expect(seconds).toBeLessThanOrEqual(60);
    }
    for (const answer of served ?? []) expect(told(answer).retryAfter).toBeNull();
    for (const answer of refused ?? []) {
      expect(answer.body).toMatchObject({ reason_code: 'rate_limited', error: expect.any(String) });
      // RateLimit and Retry-After must not contradict each other.
      expect(told(answer)).toMatchObject({ left: 0, retryAfter: String(told(answer).seconds) });
    }
  });

  it('does not limit kill switches, approval decisions or other tenants, on either control plane', async () => {
    const key = await tenant('loud');
    const quiet = await tenant('quiet');
    await atOnce(budget + 2, 'GET', '/v1/policies', { key });
    const statusOf = async (method: string, path: string, init: object) =>
      (await atOnce(2, method, path, init)).map(({ status }) => status);
    expect(await statusOf('GET', '/v1/policies', { key })).toEqual([429, 429]);
    const kill = { kind: 'block_tool', tool: '**', reason: 'noise' };
    expect(await statusOf('POST', '/v1/runtime/kill-switches', { key, body: kill })).toEqual([
      201, 201,
    ]);
    const decide = { action: 'deny' };
    expect(await statusOf('POST', '/v1/approvals/1/decide', { key, body: decide })).toEqual([
      404, 404,
    ]);
    const jti = { jti: 'pp_1' };
    for (const [method, path, body] of [
      ['GET', '/v1/runtime/kill-switches'],
      ['GET', '/v1/approvals'],
      ['GET', '/v1/sidecars'],
      ['POST', '/v1/approvals/expire'],
      ['POST', '/v1/passports/revoke', jti],
      ['DELETE', '/v1/sidecars/sc_1'],
      ['DELETE', '/v1/credentials/cred_1'],
      ['DELETE', '/v1/keys', { id: 'key_1' }],
    ] as const) {
      const statuses = await statusOf(method, path, { key, ...(body && { body }) });
      expect([path, statuses.includes(429)]).toEqual([path, false]);
    }
    expect(await statusOf('GET', '/v1/policies', { key: quiet })).toEqual([200, 200]);
  });

  it('is separate from the budget for reading queues and from the budget for kill switches', async () => {
    const key = await tenant('watching');
    for (const path of ['/v1/approvals', '/v1/sidecars', '/v1/runtime/kill-switches']) {
      const answers = await atOnce(25, 'GET', path, { key });
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    const kill = { kind: 'block_tool', tool: '**', reason: 'noise' };
    const [armed] = await atOnce(1, 'POST', '/v1/runtime/kill-switches', { key, body: kill });
    expect([armed?.status, armed && told(armed).left]).toEqual([201, 19]);
  });
});
