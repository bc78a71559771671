import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { until } from '../../support/programs/processes.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { type AgentClient, agentClient } from '../../support/sidecar/agent-client.ts';
import { Cleanup } from '../../support/sidecar/proxy.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

const cleanup = new Cleanup();
let separate: Separate;
let agent: AgentClient;
let url: string;
let watchId: number;
/** A time after the first calls, which only tested whether the sidecar has the policy. */
let since = '';

const tool = (value: string) => ({ path: 'tool.name', operator: '==', value });
const over = (limit: number) => ({ path: 'args.amount', operator: '>', value: limit });
const rules = {
  pay: { name: 'pay', decision: 'allow', reason: 'test.pay', when: { all: [tool('bank.pay')] } },
  large: {
    name: 'large',
    decision: 'deny',
    reason: 'watch.large',
    when: { all: [tool('bank.pay'), over(100)] },
  },
};

async function publish(definition: object): Promise<number> {
  const body = { name: 'p', rules_json: definition, publish: true };
  const answer = await separate.api('POST', '/v1/policies', body);
  expect(answer.status).toBe(201);
  return Number(answer.body.id);
}

beforeAll(async () => {
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const upstream = await startUpstream();
  cleanup.add(() => upstream.close());
  separate = await startSeparate({ databaseUrl: database.url, redisUrl: redis.url });
  cleanup.add(() => separate.close());
  url = `http://127.0.0.1:${upstream.port}/pay`;
  const binding = {
    tool: 'bank.pay',
    protocol: 'http',
    host: `127.0.0.1:${upstream.port}`,
    method: 'POST',
    path: '/pay',
    body: 'json',
  };
  expect((await separate.api('PUT', '/v1/runtime/bindings/pay', binding)).status).toBe(200);
  await separate.api('PUT', '/v1/users/user_1', { email: 'a@example.com', role: 'clerk' });
  watchId = await publish({ id: 'watch', version: 1, mode: 'monitor', rules: [rules.large] });
  await publish({ id: 'pay', version: 1, rules: [rules.pay] });
  agent = agentClient(separate.proxyUrl);
  cleanup.add(() => agent.close());
  await until('the policy is in force', async () => {
    return (await agent.post(url, { amount: 1 })).status === 200;
  });
}, 90_000);
afterAll(() => cleanup.run());

/** Waits until this many decisions of the sidecar after `since` are sealed, and returns them. */
async function sealedCalls(total: number): Promise<Record<string, unknown>[]> {
  let found: Record<string, unknown>[] = [];
  await until('they are in the ledger', async () => {
    const path = `/v1/evidence/events?tool=bank.pay&decision=allow&limit=1000&from=${since}`;
    const { body } = await separate.api('GET', path);
    found = (body.events as Record<string, unknown>[]).filter(
      ({ source }) => source !== 'control-plane',
    );
    return found.length === total;
  });
  return found;
}

describe('backtests, monitor reports and exported cases', () => {
  it('include the calls that a sidecar recorded', async () => {
    since = new Date(Date.now() + 1).toISOString();
    await until('a later millisecond', () => new Date().toISOString() > since);
    for (const body of [{ amount: 5 }, { amount: 500 }, { amount: true }, {}]) {
      expect((await agent.post(url, body, { 'action-goal': 'pay the bill' })).status).toBe(200);
    }
    const events = await sealedCalls(4);
    expect(events[0]?.data).toMatchObject({
      environment: 'prod',
      goal: 'pay the bill',
      seen: { agent_name: 'tester', user_role: 'clerk' },
    });

    const clerks = {
      ...rules.pay,
      name: 'no clerks',
      decision: 'deny',
      reason: 'test.clerk',
      when: { all: [{ path: 'user.role', operator: '==', value: 'clerk' }] },
    };
    const test = (policy: object) =>
      separate.api('POST', '/v1/policies/backtest', { policy, from: since });
    const all = await test({ id: 'clerks', version: 1, rules: [clerks] });
    expect(all.body).toMatchObject({
      examined: 4,
      changed: 4,
      unknown: 0,
      counts: { 'allow→deny': 4 },
    });
    const ids = (all.body.changes as { event_id: string }[]).map(({ event_id }) => event_id);
    expect(ids).toEqual(events.map(({ id }) => id));
    const large = await test({ id: 'limit', version: 1, rules: [rules.large] });
    expect(large.body).toMatchObject({ examined: 4, changed: 0, unknown: 2 });

    const path = `/v1/policies/${watchId}/observed?from=${since}`;
    expect((await separate.api('GET', path)).body).toMatchObject({
      examined: 4,
      matched: 1,
      would_refuse: 1,
      by_decision: { deny: 1 },
      examples: [ids[1]],
    });

    const fixture = await fetch(`${separate.origin}/api/v1/evidence/events/${ids[1]}/fixture`, {
      headers: { authorization: `Bearer ${separate.ownerKey}` },
    });
    expect(fixture.status).toBe(200);
    const { cases } = parse(await fixture.text()) as { cases: Record<string, unknown>[] };
    expect(cases[0]?.context).toMatchObject({
      agent: { id: separate.agentId, name: 'tester', goal: 'pay the bill' },
      user: { id: 'user_1', role: 'clerk' },
      tool: { name: 'bank.pay' },
      args: { amount: 0 },
      environment: 'prod',
    });
    expect(cases[0]?.expect).toEqual({
      decision: 'allow',
      reason_code: 'test.pay',
      matched_rules: ['pay/pay'],
    });
  });
});
