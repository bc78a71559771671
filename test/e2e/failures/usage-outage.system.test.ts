import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { until } from '../../support/programs/processes.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { type AgentClient, agentClient } from '../../support/sidecar/agent-client.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

const upstream = await startUpstream();
const host = `127.0.0.1:${upstream.port}`;
const staleAfterMs = 5_000;
let separate: Separate;
let agent: AgentClient;
let end: () => Promise<void>;
beforeAll(async () => {
  const database = await freshDatabase();
  const redis = await startRedis();
  separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { SALLYPORT_MAX_STALENESS_MS: String(staleAfterMs) },
  });
  agent = agentClient(separate.proxyUrl);
  await separate.api('PUT', '/v1/runtime/bindings/pay', {
    protocol: 'http',
    host,
    method: 'POST',
    path: '/pay',
    body: 'json',
    tool: 'pay',
    resource: 'account:main',
  });
  const when = {
    all: [
      { path: 'tool.name', operator: '==', value: 'pay' },
      { path: 'usage.calls_1h', operator: '<', value: 10 },
    ],
  };
  await separate.api('POST', '/v1/policies', {
    name: 'pay',
    publish: true,
    rules_json: {
      id: 'pay',
      version: 1,
      rules: [{ name: 'few', decision: 'allow', reason: 'pay.few', when }],
    },
  });
  end = async () => {
    await agent.close();
    await separate.close();
    await redis.stop();
    await database.drop();
    await upstream.close();
  };
}, 120_000);
afterAll(() => end());

const pay = () => agent.post(`http://${host}/pay`, {});
const reasons = async (calls: number) => {
  const answers = await Promise.all(Array.from({ length: calls }, pay));
  return answers.map(({ status, body }) => (status === 200 ? 'performed' : body.reason_code));
};

it('a sidecar without the control plane counts its own calls, then denies calls; the counts survive a restart of both programs', async () => {
  await until('the first call passes', async () => (await pay()).status === 200);
  await separate.controlPlane.kill();
  // The sidecar does not exceed the budget, even if its state is already too old.
  const during = await reasons(40);
  expect(during.filter((reason) => reason === 'performed').length).toBeLessThanOrEqual(9);
  await until('what it holds is too old', async () => {
    return (await reasons(1))[0] === 'policy.update_required';
  });
  await separate.sidecar.kill();
  await separate.restartSidecar({ ready: false });
  await separate.restartControlPlane();
  await until('the budget is used up', async () => {
    const found: readonly unknown[] = await reasons(20).catch(() => []);
    return found.includes('policy.no_match');
  });
  expect(upstream.seen).toHaveLength(10);
}, 120_000);
