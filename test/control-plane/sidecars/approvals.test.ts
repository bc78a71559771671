import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../../shared/approval/action-digest.ts';
import { decideApproval, listApprovals } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { openSidecarApproval } from '../../../shared/contract/sidecar-calls.ts';
import { sidecarSection } from '../../../shared/sync/sections.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import type { Verdict } from '../../../shared/vocabulary/verdict.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let agentId: string;
let sidecar: EnrolledSidecar;
let approver: Client;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('bot');
  sidecar = await enrolledSidecar(gateway, agentId);
  approver = await gateway.as({ role: 'approver', principal: 'anna' });
  await gateway.publish(rule('require_approval', 'refund'));
});
afterAll(() => gateway.close());

let resources = 0;
function action(more: Partial<Action> = {}): Action {
  resources += 1;
  return {
    tenantId: 'default',
    agentId,
    userId: 'user-1',
    tool: 'refund',
    resource: `payment:${resources}`,
    args: { amount: 40 },
    ...more,
  };
}

const verdict: Verdict = {
  decision: 'require_approval',
  reasonCode: 'refund.needs_human',
  summary: '',
  mode: 'enforce',
  enforced: true,
  matchedRules: ['refunds/all'],
  observed: [],
  riskTier: 'high',
  nextSteps: [],
  effects: [
    { kind: 'open_approval', terms: { channels: ['chat_a'], minRole: 'approver', quorum: 1 } },
  ],
};

async function open(one = action(), by = sidecar, digest = digestOf(one, undefined)) {
  return by.controlPlane.openApproval(one, digest, verdict);
}

async function decide(id: number, act: 'approve' | 'deny' = 'approve') {
  return approver.call(decideApproval, { params: { id }, body: { action: act } });
}

async function versionOf(sidecarId: string): Promise<bigint> {
  const where = { tenantId_name: { tenantId: 'default', name: sidecarSection(sidecarId) } };
  return (await gateway.services.db.syncSection.findUnique({ where }))?.version ?? 0n;
}

describe('an approval requested by a sidecar', () => {
  it('is opened once for each action of the sidecar’s agent, with the sidecar’s terms', async () => {
    const one = action();
    const first = await open(one);
    expect(await open(one)).toEqual(first);
    const { approvals } = await approver.call(listApprovals, { query: { limit: 1 } });
    expect(approvals[0]).toMatchObject({
      id: first.id,
      agent_id: agentId,
      user_id: 'user-1',
      channels: ['chat_a'],
      proposed_args: { amount: 40 },
    });
  });

  it.each([
    ['a different agent', { agentId: '999' }],
    ['a different user', { userId: 'ceo' }],
    ['a different tenant', { tenantId: 'other' }],
  ])('is refused if the digest was computed for %s', async (_what, more) => {
    const one = action();
    const digest = digestOf({ ...one, ...more }, undefined);
    expect((await refusalOf(open(one, sidecar, digest))).code).toBe('approval.invalid');
  });

  it('is refused if the digest covers arguments that differ from the displayed arguments', async () => {
    const one = action();
    const digest = digestOf({ ...one, args: { amount: 4000 } }, undefined);
    expect((await refusalOf(open(one, sidecar, digest))).code).toBe('approval.invalid');
  });

  it.each([
    ['covers additional', undefined, { request_state: 's' }],
    ['omits the action’s', { request_state: 's' }, undefined],
  ])(
    'is refused if the digest %s MCP parameters other than the arguments',
    async (_, shown, digested) => {
      const one = action();
      const digest = digestOf({ ...one, mcp: digested }, undefined);
      const error = await refusalOf(open({ ...one, mcp: shown }, sidecar, digest));
      expect(error.code).toBe('approval.invalid');
    },
  );

  it('cannot be requested with an API key', async () => {
    const one = action();
    const body = {
      tool: one.tool,
      resource: one.resource,
      args: one.args,
      reason_code: 'x',
      matched_rules: [],
      risk_tier: 'low' as const,
      terms: { channels: [], minRole: 'approver', quorum: 1 },
      action_digest: digestOf(one, undefined),
    };
    const error = await refusalOf(gateway.owner.call(openSidecarApproval, { body }));
    expect(error.code).toBe('auth.sidecar_required');
  });

  it('is not opened again for a granted action until the grant is used', async () => {
    const one = action();
    const { id } = await open(one);
    await decide(id);
    expect((await open(one)).id).toBe(id);
    await sidecar.controlPlane.spendApproval(id);
    expect((await open(one)).id).not.toBe(id);
  });

  it('is not opened again for an hour after a denial', async () => {
    const one = action();
    const { id } = await open(one);
    await decide(id, 'deny');
    expect((await open(one)).id).toBe(id);
    gateway.services.clock.advance(3_600_001);
    expect((await open(one)).id).not.toBe(id);
  });

  it('is not shared with another sidecar of the agent', async () => {
    const one = action();
    const { id } = await open(one);
    await decide(id);
    const second = await enrolledSidecar(gateway, agentId);
    expect((await open(one, second)).id).not.toBe(id);
    expect((await refusalOf(second.controlPlane.spendApproval(id))).code).toBe(
      'approval.not_found',
    );
  });

  it('changes the sidecar’s section when the approval is opened and when it is decided', async () => {
    const before = await versionOf(sidecar.id);
    const { id } = await open();
    const asked = await versionOf(sidecar.id);
    expect(asked).toBeGreaterThan(before);
    await decide(id);
    expect(await versionOf(sidecar.id)).toBeGreaterThan(asked);
  });

  it('is transferred to the new sidecar of a restarted agent', async () => {
    const one = action();
    const { id } = await open(one);
    const next = await enrolledSidecar(gateway, agentId);
    expect((await open(one, next)).id).toBe(id);
    await decide(id);
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe(
      'approval.not_found',
    );
    await next.controlPlane.spendApproval(id);
  });
});

describe('using a grant', () => {
  it('succeeds only once, even for concurrent requests', async () => {
    const { id } = await open();
    await decide(id);
    const tries = await Promise.allSettled(
      Array.from({ length: 5 }, () => sidecar.controlPlane.spendApproval(id)),
    );
    expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe('approval.used');
    const used = await gateway.services.db.evidenceRow.findMany({
      where: { type: 'approval.used' },
    });
    const ids = used.map(({ canonical }) => JSON.parse(canonical).data.approval_id);
    expect(ids.filter((other) => other === id)).toHaveLength(1);
  });

  it('is refused before a decision, after a denial, and after the expiry', async () => {
    const waiting = await open();
    expect((await refusalOf(sidecar.controlPlane.spendApproval(waiting.id))).code).toBe(
      'approval.invalid',
    );
    await decide(waiting.id, 'deny');
    expect((await refusalOf(sidecar.controlPlane.spendApproval(waiting.id))).code).toBe(
      'approval.invalid',
    );
    const late = await open();
    await decide(late.id);
    gateway.services.clock.advance(3600_000);
    expect((await refusalOf(sidecar.controlPlane.spendApproval(late.id))).code).toBe(
      'approval.expired',
    );
  });

  it('is refused for a sidecar of another agent', async () => {
    const { id } = await open();
    await decide(id);
    const other = await enrolledSidecar(gateway, await gateway.agent('other bot'));
    expect((await refusalOf(other.controlPlane.spendApproval(id))).code).toBe('approval.not_found');
    await sidecar.controlPlane.spendApproval(id);
  });

  it('is refused if the approval’s row is granted but the ledger has no decision', async () => {
    const { id } = await open();
    await gateway.services.db.approval.update({
      where: { id },
      data: {
        status: 'approved',
        eventHash: `sha256:${'0'.repeat(64)}`,
        eventId: 'ev_forged',
        grantExpiresAt: new Date(gateway.services.clock.now() + 60_000),
      },
    });
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe('approval.invalid');
  });
});
