import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import { manualClock } from '../../support/base/manual-clock.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { startRedis } from '../../support/programs/redis.ts';

async function passportFor(gateway: Gateway, agent_id: string, risk_tier: 'low' | 'high' = 'low') {
  const { passport } = await gateway.owner.call(issuePassport, {
    body: {
      tenant_id: 'default',
      agent_id,
      user_id: 'user-1',
      goal: '',
      allowed_tools: ['pay'],
      risk_tier,
      policy_id: 'p1',
      audience: 'gateway://agents',
      ttl_seconds: 300,
    },
  });
  return passport;
}

function ask(gateway: Gateway, agent_id: string, passport: string) {
  const body = { tool: 'pay', resource: 'r', args: {}, agent_id, user_id: 'user-1', passport };
  return gateway.post('/v1/actions/preflight', body);
}

describe('two control planes on one database and one Redis', () => {
  let replicas: [Gateway, Gateway];
  let redis: Awaited<ReturnType<typeof startRedis>>;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let agentId: string;
  beforeAll(async () => {
    redis = await startRedis();
    database = await freshDatabase();
    const masterKey = randomBytes(32);
    // This clock is ahead of Redis's clock, so that every passport is issued after Redis began to store
    // claims.
    const clock = manualClock(Date.now() + 60_000);
    const options = { databaseUrl: database.url, redisUrl: redis.url, masterKey, clock };
    const first = await startGateway(options);
    replicas = [first, await startGateway(options)];
    agentId = await first.agent();
    await first.publish(rule('allow', 'pay'));
  });
  afterAll(async () => {
    for (const replica of replicas) await replica.close();
    await redis.stop();
    await database.drop();
  });

  it.each(['low', 'high'] as const)('accept a passport of %s risk only once', async (risk) => {
    const passport = await passportFor(replicas[0], agentId, risk);
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, n) => ask(replicas[n % 2 === 0 ? 0 : 1], agentId, passport)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(15).fill(403)]);
  });

  it('accept a passport of low risk only once, even if the passport’s claim was deleted from Redis', async () => {
    const passport = await passportFor(replicas[0], agentId);
    expect((await ask(replicas[0], agentId, passport)).status).toBe(200);
    const client = new Redis(redis.url);
    const claims = await client.keys('*jti:*');
    expect(claims.length).toBeGreaterThan(0);
    await client.del(...claims);
    await client.quit();
    const again = await ask(replicas[1], agentId, passport);
    expect(again).toMatchObject({ status: 403, body: { reason_code: 'passport.replay_detected' } });
  });

  it('both apply a policy to their next decision after one of them published the policy', async () => {
    const body = { tool: 'fresh', resource: 'r', agent_id: agentId, user_id: 'u' };
    const before = await replicas[1].post('/v1/actions/preflight', body);
    await replicas[0].publish(rule('allow', 'fresh'));
    const after = await replicas[1].post('/v1/actions/preflight', body);
    expect([before.body?.decision, after.body?.decision]).toEqual(['deny', 'allow']);
  });
});

describe('while the bus cannot guarantee single use', () => {
  let gateway: Gateway;
  let agentId: string;
  beforeAll(async () => {
    gateway = await startGateway();
    agentId = await gateway.agent();
    await gateway.publish(rule('allow', 'pay'));
  });
  afterAll(() => gateway.close());

  it('a passport is refused if it was issued before the bus lost its data', async () => {
    const { signingKeys, clock } = gateway.services;
    const claims = buildClaims({
      issuer: 'sallyport',
      agentId,
      audience: 'gateway://agents',
      tenantId: 'default',
      userId: 'user-1',
      goal: '',
      allowedTools: ['pay'],
      riskTier: 'low',
      policyId: 'p1',
      policyHash: '',
      ttlSeconds: 300,
      nowMs: clock.now() - 60_000,
    });
    const passport = signPassport(claims, await signingKeys.active('default', 'passport'));
    const answer = await ask(gateway, agentId, passport);
    expect(answer).toMatchObject({
      status: 503,
      body: { reason_code: 'passport.claim_unavailable', decision: 'deny' },
    });
  });

  it('a passport is refused while the bus is unavailable, and the refusal is sealed', async () => {
    const passport = await passportFor(gateway, agentId);
    await gateway.services.bus.close();
    const answer = await ask(gateway, agentId, passport);
    expect(answer).toMatchObject({
      status: 503,
      body: { reason_code: 'passport.claim_unavailable', decision: 'deny' },
    });
    const row = await gateway.services.db.evidenceRow.findFirst({
      where: { eventId: String(answer.body?.evidence_event_id) },
    });
    expect(row).toMatchObject({ decision: 'deny', reasonCode: 'passport.claim_unavailable' });
  });
});
