import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../../support/control-plane/api.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

let tenants = 0;

/** Creates a tenant with a plan and this number of agents and draft policies. */
async function tenant(plan: string, { agents = 0, policies = 0 } = {}) {
  const { db } = gateway.services;
  tenants += 1;
  const id = `plan-${tenants}`;
  await db.tenant.create({ data: { id, name: id, plan } });
  await db.agent.createMany({
    data: Array.from({ length: agents }, (_, n) => ({ tenantId: id, name: `old ${n}` })),
  });
  await db.policy.createMany({
    data: Array.from({ length: policies }, (_, n) => ({
      tenantId: id,
      name: `old ${n}`,
      definitionId: `old${n}`,
      version: 1,
      definition: '{}',
      policyHash: 'x',
      createdBy: 'test',
    })),
  });
  return { id, key: await gateway.api.key({ tenantId: id }) };
}

function createAgent(key: string, name: string): Promise<Answer> {
  return gateway.post('/v1/agents/register', { name, capabilities: ['a'] }, key);
}

function createPolicy(key: string, id: string, publish = false): Promise<Answer> {
  const rules_json = { id, version: 1, rules: [rule('deny')] };
  return gateway.post('/v1/policies', { name: id, rules_json, publish }, key);
}

const refused = (feature: string, min_tier: string) => ({
  status: 402,
  body: { reason_code: 'plan.cap_reached', feature, min_tier, error: expect.any(String) },
});

describe('the limits of a plan', () => {
  it('are not exceeded by twenty concurrent registrations of agents', async () => {
    const { id, key } = await tenant('free');
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => createAgent(key, `agent ${n}`)),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect(answer).toMatchObject(refused('agents', 'team'));
    }
    expect(await gateway.services.db.agent.count({ where: { tenantId: id } })).toBe(5);
  });

  it('are not exceeded by twenty concurrent creations of draft or published policies', async () => {
    const { id, key } = await tenant('free');
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => createPolicy(key, `p${n}`, n % 2 === 0)),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect(answer).toMatchObject(refused('policies', 'team'));
    }
    expect(await gateway.services.db.policy.count({ where: { tenantId: id } })).toBe(10);
  });

  it('are a hundred agents and five hundred policies in plan team', async () => {
    const below = await tenant('team', { agents: 99, policies: 499 });
    expect((await createAgent(below.key, 'last')).status).toBe(201);
    expect((await createPolicy(below.key, 'last')).status).toBe(201);
    expect(await createAgent(below.key, 'over')).toMatchObject(refused('agents', 'enterprise'));
    const overPolicies = await createPolicy(below.key, 'over');
    expect(overPolicies).toMatchObject(refused('policies', 'enterprise'));
  });

  it('do not exist in plan enterprise; an unknown plan has the smallest limits', async () => {
    const large = await tenant('enterprise', { agents: 101, policies: 501 });
    expect((await createAgent(large.key, 'more')).status).toBe(201);
    expect((await createPolicy(large.key, 'more')).status).toBe(201);
    const odd = await tenant('platinum', { agents: 5, policies: 10 });
    expect((await createAgent(odd.key, 'more')).status).toBe(402);
    expect((await createPolicy(odd.key, 'more')).status).toBe(402);
  });

  it('are reported together with the next plan that is sufficient, even after a downgrade', async () => {
    const { key } = await tenant('free', { agents: 120 });
    expect(await createAgent(key, 'more')).toMatchObject(refused('agents', 'enterprise'));
  });

  it('count disabled agents, and do not prevent registering an existing agent again', async () => {
    const { id, key } = await tenant('free', { agents: 5 });
    await gateway.services.db.agent.updateMany({
      where: { tenantId: id },
      data: { disabledAt: new Date() },
    });
    expect((await createAgent(key, 'more')).status).toBe(402);
    expect((await createAgent(key, 'old 0')).status).toBe(201);
  });

  it('do not count archived policies', async () => {
    const { id, key } = await tenant('free', { policies: 10 });
    expect((await createPolicy(key, 'more')).status).toBe(402);
    const [first] = await gateway.services.db.policy.findMany({ where: { tenantId: id }, take: 1 });
    const path = `/api/v1/policies/${first?.id}`;
    expect((await gateway.api.send('DELETE', path, { key })).status).toBe(200);
    expect((await createPolicy(key, 'more')).status).toBe(201);
  });

  it('exclude integrations in the smallest plan: no part of an integration is stored', async () => {
    const put = (key: string) =>
      gateway.api.send('PUT', '/api/v1/integrations/webhook', {
        key,
        body: { url: 'https://hooks.example.com/x' },
      });
    const free = await tenant('free');
    expect(await put(free.key)).toMatchObject(refused('integrations', 'team'));
    expect(await gateway.services.db.install.count({ where: { tenantId: free.id } })).toBe(0);
    const team = await tenant('team');
    expect((await put(team.key)).status).toBe(200);
  });
});
