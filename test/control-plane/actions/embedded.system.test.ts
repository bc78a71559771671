import { afterAll, beforeAll, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { decideApproval, listApprovals } from '../../../shared/contract/approvals.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';

// Embedded mode has one database connection. Code that waits for a second connection inside a transaction
// hangs in these tests.
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    databaseUrl: 'embedded',
    env: { SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8' },
  });
});
afterAll(() => gateway.close());

it('an approval is requested, decided and used on the single connection of embedded mode', async () => {
  const agent_id = await gateway.agent();
  await gateway.publish(rule('require_approval', 'refund'));
  await gateway.owner.call(ingestTool, { body: { manifest: { name: 'refund' } } });
  const action = { tool: 'refund', resource: 'p:1', args: { n: 1 }, agent_id, user_id: 'u' };
  const asked = await Promise.all(
    Array.from({ length: 8 }, () => gateway.owner.call(preflight, { body: action })),
  );
  const ids = new Set(asked.map(({ approval_request_id }) => approval_request_id));
  expect(ids.size).toBe(1);
  const approver = await gateway.as({ role: 'approver', principal: 'anna' });
  const decided = await approver.call(decideApproval, {
    params: { id: Number([...ids][0]) },
    body: { action: 'approve' },
  });
  const { passport } = await gateway.owner.call(issuePassport, {
    body: {
      tenant_id: 'default',
      agent_id,
      user_id: 'u',
      goal: '',
      allowed_tools: ['refund'],
      risk_tier: 'critical',
      policy_id: 'p',
      approval_hash: decided.event_hash,
      audience: 'gateway://agents',
      ttl_seconds: 60,
    },
  });
  const answers = await Promise.all(
    Array.from({ length: 6 }, () =>
      gateway.post('/v1/actions/preflight', { ...action, passport, idempotency_key: 'once' }),
    ),
  );
  expect(answers.map(({ body }) => body?.reason_code)).toEqual(Array(6).fill('approval.satisfied'));
  expect((await approver.call(listApprovals)).approvals[0]).toHaveProperty('used_at');
});

it('concurrent execute requests with one idempotency key perform the action once on a single connection', async () => {
  const upstream = await startUpstream();
  const agent_id = await gateway.agent('relayed');
  await gateway.publish(rule('allow', 'pay'));
  const bound = await gateway.api.send('PUT', '/api/v1/runtime/bindings/pay', {
    key: await gateway.api.key(),
    body: {
      protocol: 'http',
      host: 'bank.example',
      method: 'POST',
      path: '/pay',
      tool: 'pay',
      upstream: { url: `http://127.0.0.1:${upstream.port}/pay`, method: 'POST' },
    },
  });
  expect(bound.status).toBe(200);
  const key = await gateway.api.key({ role: 'gateway', scope: 'gateway' });
  const action = { tool: 'pay', resource: '/pay', args: { n: 1 }, agent_id, user_id: 'u' };
  const body = { ...action, idempotency_key: 'once' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => gateway.post('/v1/actions/execute', body, key)),
  );
  expect(answers.map((answer) => answer.body?.executed)).toEqual(Array(8).fill(true));
  expect(upstream.seen.map((seen) => seen.body)).toEqual(['{"n":1}']);
  await upstream.close();
});

it('a sidecar enrols, uploads evidence and fetches credentials on a single connection', async () => {
  const sidecar = await enrolledSidecar(gateway, await gateway.agent('other'));
  const records = [sidecar.record({}, 'c2FsdA=='), sidecar.record()];
  const { jws, last } = sidecar.segment(records);
  const uploads = await Promise.all(Array.from({ length: 3 }, () => sidecar.upload(jws, records)));
  expect(uploads).toEqual([last, last, last]);
  expect((await sidecar.controlPlane.credentials()).credentials).toEqual([]);
});

it('decisions and budgets work again after the database connection was lost', async () => {
  const agent_id = await gateway.agent('budgeted');
  const byTool = { path: 'tool.name', operator: '==', value: 'topup' };
  const within = { path: 'usage.calls_1h', operator: '<', value: 3 };
  await gateway.publish({ ...rule('allow', 'topup'), when: { all: [byTool, within] } });
  const action = { tool: 'topup', resource: 'p:1', args: {}, agent_id, user_id: 'u' };
  const ask = async () => (await gateway.owner.call(preflight, { body: action })).decision;
  const sidecar = await enrolledSidecar(gateway, agent_id);
  expect(await ask()).toBe('allow');
  const client = await gateway.services.pool.connect();
  client.release(new Error('lost'));
  expect([await ask(), await ask(), await ask()]).toEqual(['allow', 'allow', 'deny']);
  const { buckets } = await sidecar.controlPlane.usage('run_1', 0);
  expect(buckets).toMatchObject([{ tool: 'topup', calls: 3 }]);
});
