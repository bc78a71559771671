import { afterAll, beforeAll, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { decideApproval, listApprovals } from '../../../shared/contract/approvals.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { enrolledSidecar } from '../../support/enrolled-sidecar.ts';
import { type Gateway, rule, startGateway } from '../../support/gateway.ts';

// Embedded mode has one connection: whatever waits for another inside a transaction hangs here.
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ databaseUrl: 'embedded' });
});
afterAll(() => gateway.close());

it('the whole way of an approved action works on the one connection of embedded mode', async () => {
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

it('sidecars enrol, upload and fetch on it too', async () => {
  const sidecar = await enrolledSidecar(gateway, await gateway.agent('other'));
  const records = [sidecar.record({}, 'c2FsdA=='), sidecar.record()];
  const { jws, last } = sidecar.segment(records);
  const uploads = await Promise.all(Array.from({ length: 3 }, () => sidecar.upload(jws, records)));
  expect(uploads).toEqual([last, last, last]);
  expect((await sidecar.controlPlane.credentials()).credentials).toEqual([]);
});
