import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { decideApproval, listApprovals } from '../../../shared/contract/approvals.ts';
import { until } from '../../support/base/until.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent();
  await gateway.publish(rule('allow', 'pay'), rule('require_approval', 'refund'));
});
afterAll(() => gateway.close());

const action = (more: object = {}) => ({
  tool: 'pay',
  resource: 'r',
  args: {},
  agent_id: agentId,
  user_id: 'user-1',
  ...more,
});

/** Runs `work` while no row can be added to the ledger. */
async function withoutLedger<T>(work: () => Promise<T>): Promise<T> {
  const { db } = gateway.services;
  await db.$executeRaw`alter table evidence_head rename to evidence_head_away`;
  try {
    return await work();
  } finally {
    await db.$executeRaw`alter table evidence_head_away rename to evidence_head`;
  }
}

describe('while the ledger is not writable', () => {
  it('an action that a policy allows is denied, and a retry with the same idempotency key gets a new decision', async () => {
    const body = action({ idempotency_key: 'again' });
    const refused = await withoutLedger(() => gateway.post('/v1/actions/preflight', body));
    expect(refused).toMatchObject({
      status: 500,
      body: { reason_code: 'evidence.seal_failed', decision: 'deny' },
    });
    const answer = await gateway.post('/v1/actions/preflight', body);
    expect(answer).toMatchObject({ status: 200, body: { decision: 'allow' } });
  });

  it('a human’s decision on an approval is stored but grants nothing until the decision is sealed', async () => {
    const asked = await gateway.owner.call(preflight, { body: action({ tool: 'refund' }) });
    const id = Number(asked.approval_request_id);
    const approver = await gateway.as({ role: 'approver', principal: 'anna' });
    const decide = () =>
      approver.call(decideApproval, { params: { id }, body: { action: 'approve' } });
    await withoutLedger(async () => {
      expect((await refusalOf(decide())).code).toBe('evidence.seal_failed');
      const row = await gateway.services.db.approval.findUniqueOrThrow({ where: { id } });
      expect(row).toMatchObject({ status: 'approved', eventHash: null });
    });
    await until(async () => {
      const { approvals } = await approver.call(listApprovals, { query: { status: 'approved' } });
      return approvals.some((one) => one.id === id && one.event_hash !== undefined);
    });
  });
});

describe('while approvals cannot be stored', () => {
  it('an action that needs an approval is denied, and can be retried with the same idempotency key', async () => {
    const { db } = gateway.services;
    const body = action({ tool: 'refund', idempotency_key: 'when there is nobody to ask' });
    await db.$executeRaw`alter table approval rename column channels to channels_away`;
    const denied = await gateway
      .post('/v1/actions/preflight', body)
      .finally(() => db.$executeRaw`alter table approval rename column channels_away to channels`);
    const reason_code = 'approval.unavailable';
    expect(denied).toMatchObject({ status: 200, body: { decision: 'deny', reason_code } });
    const asked = await gateway.post('/v1/actions/preflight', body);
    expect(asked).toMatchObject({ status: 200, body: { decision: 'require_approval' } });
    expect((await gateway.post('/v1/actions/preflight', body)).body).toEqual(asked.body);
  });
});

it('a decision on arguments of the maximum size is sealed', async () => {
  const wide = (depth: number): object | number =>
    depth === 0
      ? 1
      : Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`${n}`, wide(depth - 1)]));
  const args = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [name, wide(2)]));
  const answer = await gateway.post('/v1/actions/preflight', action({ args }));
  expect(answer).toMatchObject({ status: 200, body: { decision: 'allow' } });
});
