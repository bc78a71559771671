import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../../shared/approval/action-digest.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import type { ApprovalTerms, Verdict } from '../../../shared/vocabulary/verdict.ts';
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
let sidecar: EnrolledSidecar;
let anna: Client;
let oscar: Client;
let otto: Client;
beforeAll(async () => {
  gateway = await startGateway();
  sidecar = await enrolledSidecar(gateway, await gateway.agent('bot'));
  anna = await gateway.as({ role: 'approver', principal: 'anna' });
  oscar = await gateway.as({ role: 'owner', principal: 'oscar' });
  otto = await gateway.as({ role: 'owner', principal: 'otto' });
  const twoOwners = { channel: 'chat_b', min_role: 'owner', quorum: 2 };
  await gateway.publish(
    rule('require_approval', 'plain'),
    rule('require_approval', 'wire', { approval: twoOwners }),
    rule('require_approval', 'often', { approval: { grant: { max_uses: 3 } } }),
    rule('allow', 'read'),
    rule('deny', 'drop'),
  );
});
afterAll(() => gateway.close());

let resources = 0;
function action(tool: string): Action {
  resources += 1;
  const { agentId } = sidecar;
  const resource = `payment:${resources}`;
  return { tenantId: 'default', agentId, userId: 'user-1', tool, resource, args: {} };
}

const weakest: ApprovalTerms = { channels: ['chat_a'], minRole: 'approver', quorum: 1 };

/** Returns the verdict that a sidecar claims to have reached. */
function claimed(terms: ApprovalTerms = weakest, more: Partial<Verdict> = {}): Verdict {
  return {
    decision: 'require_approval',
    reasonCode: 'nothing.to_see',
    summary: '',
    mode: 'enforce',
    enforced: true,
    matchedRules: ['none/at all'],
    observed: [],
    riskTier: 'low',
    policyHash: `sha256:${'0'.repeat(64)}`,
    nextSteps: [],
    effects: [{ kind: 'open_approval', terms }],
    ...more,
  };
}

const open = (one: Action, verdict = claimed()) =>
  sidecar.controlPlane.openApproval(one, digestOf(one, undefined), verdict);
const stored = (id: number) => gateway.services.db.approval.findUniqueOrThrow({ where: { id } });
const decide = (id: number, by: Client) =>
  by.call(decideApproval, { params: { id }, body: { action: 'approve' } });

async function eventOf(type: string, id: number) {
  const rows = await gateway.services.db.evidenceRow.findMany({ where: { type } });
  const events = rows.map(({ canonical }) => JSON.parse(canonical));
  return events.find(({ data }) => data.approval_id === id);
}

describe('an approval that a sidecar requests', () => {
  it('has the terms, reason, rules and policy that the control plane computes', async () => {
    const { id } = await open(action('wire'));
    const row = await stored(id);
    expect(row).toMatchObject({
      minRole: 'owner',
      quorum: 2,
      reasonCode: 'test.require_approval',
    });
    expect(row.policyHash).not.toBe(claimed().policyHash);
    expect(row.channels).toEqual(['chat_b', 'chat_a']);
    const { data, reason_code } = await eventOf('approval.requested', id);
    expect(reason_code).toBe('test.require_approval');
    expect(data.matched_rules).toEqual(['p1/require_approval wire']);
  });

  it('requires two owners if a control plane rule requires them, even if the sidecar requests one approver', async () => {
    const { id } = await open(action('wire'));
    expect((await refusalOf(decide(id, anna))).code).toBe('approval.role_insufficient');
    expect((await decide(id, oscar)).votes_missing).toBe(1);
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe('approval.invalid');
    await decide(id, otto);
    await sidecar.controlPlane.spendApproval(id);
  });

  it('has the sidecar’s terms if these are stricter', async () => {
    const strict = { channels: [], minRole: 'admin', quorum: 3 };
    const { id } = await open(action('often'), claimed(strict, { riskTier: 'critical' }));
    expect(await stored(id)).toMatchObject({
      minRole: 'admin',
      quorum: 3,
      riskTier: 'critical',
      grantLimits: null,
    });
  });

  it('cannot exceed the grant terms and the waiting time that the control plane’s rules set', async () => {
    const grant = { uses: 1000, ttlSeconds: 2_592_000, scope: 'tool' } as const;
    const wide = claimed({ ...weakest, grant, slaSeconds: 86_400 });
    const narrow = await open(action('often'), wide);
    expect((await stored(narrow.id)).grantLimits).toMatchObject({ uses: 3, scope: 'action' });
    for (const tool of ['plain', 'read']) {
      const { grantLimits, expiresAt, requestedAt } = await stored(
        (await open(action(tool), wide)).id,
      );
      expect(grantLimits).toBeNull();
      expect(expiresAt.getTime() - requestedAt.getTime()).toBe(3_600_000);
    }
  });

  it('is opened even if the control plane’s rules allow the action, and its summary states this', async () => {
    const { id } = await open(action('read'));
    expect(await stored(id)).toMatchObject({ minRole: 'approver', reasonCode: 'test.allow' });
    expect((await stored(id)).summary).toContain('Only its sidecar’s policies require');
  });

  it.each([
    ['drop', 'test.deny'],
    ['unknown', 'policy.no_match'],
  ])(
    'is refused with the reason if the control plane’s rules deny the tool %s',
    async (tool, reason) => {
      const before = await gateway.services.db.approval.count();
      const refusal = await refusalOf(open(action(tool)));
      expect(refusal.code).toBe('approval.action_denied');
      expect(refusal.message).toContain(reason);
      expect(await gateway.services.db.approval.count()).toBe(before);
    },
  );

  it('is refused for a version of the tool that differs from the registered version', async () => {
    const one = action('plain');
    const manifestHash = `sha256:${'1'.repeat(64)}`;
    const verdict = claimed(weakest, { toolManifestHash: manifestHash });
    const opening = sidecar.controlPlane.openApproval(one, digestOf(one, manifestHash), verdict);
    expect((await refusalOf(opening)).code).toBe('tool.manifest_changed');
  });

  it('is refused if the passport is malformed', async () => {
    const one = action('plain');
    const digest = digestOf(one, undefined);
    const opening = sidecar.controlPlane.openApproval(one, digest, claimed(), 'not.a.passport');
    expect((await refusalOf(opening)).code).toBe('approval.action_denied');
  });
});

describe('rules that become stricter after a decision', () => {
  let policy = 0;
  async function publish(decision: string, approval: JsonObject = {}) {
    policy += 1;
    const rules = [rule(decision, 'moving', decision === 'deny' ? {} : { approval })];
    const rules_json = { id: 'moving', version: policy, rules };
    const { status } = await gateway.post('/v1/policies', {
      name: 'moving',
      rules_json,
      publish: true,
    });
    expect(status).toBe(201);
  }

  it('invalidate the grant when it is used, and a new approval is required', async () => {
    await publish('require_approval', { quorum: 1 });
    const one = action('moving');
    const { id } = await open(one);
    await decide(id, anna);
    await publish('require_approval', { min_role: 'owner' });
    const refusal = await refusalOf(sidecar.controlPlane.spendApproval(id));
    expect(refusal.code).toBe('approval.invalid');
    expect(refusal.message).toContain('higher role');
    const again = await open(one);
    expect(again.id).not.toBe(id);
    await decide(again.id, oscar);
    expect((await open(one)).id).toBe(again.id);
    await sidecar.controlPlane.spendApproval(again.id);
  });

  it('accept a grant if its deciders satisfy the stricter rules', async () => {
    await publish('require_approval', { quorum: 1 });
    const one = action('moving');
    const { id } = await open(one);
    await decide(id, oscar);
    expect(await stored(id)).toMatchObject({ deciderRole: 'owner', deciderCount: 1 });
    await publish('require_approval', { min_role: 'owner' });
    expect((await open(one)).id).toBe(id);
    await sidecar.controlPlane.spendApproval(id);
  });

  it('refuse a grant with too few deciders', async () => {
    await publish('require_approval', { quorum: 1 });
    const { id } = await open(action('moving'));
    await decide(id, oscar);
    await publish('require_approval', { quorum: 2 });
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe('approval.invalid');
  });

  it('refuse to use a grant for an action that the stricter rules deny', async () => {
    await publish('require_approval', { quorum: 1 });
    const { id } = await open(action('moving'));
    await decide(id, oscar);
    await publish('deny');
    const refusal = await refusalOf(sidecar.controlPlane.spendApproval(id));
    expect(refusal.code).toBe('approval.action_denied');
  });

  it('change the terms of an open approval when the action is requested again, and apply to earlier votes', async () => {
    await publish('require_approval', { quorum: 2 });
    const one = action('moving');
    const { id } = await open(one);
    await decide(id, anna);
    await publish('require_approval', { quorum: 2, min_role: 'owner' });
    expect((await open(one)).id).toBe(id);
    expect(await stored(id)).toMatchObject({ minRole: 'owner', quorum: 2 });
    expect((await decide(id, oscar)).votes_missing).toBe(1);
    expect((await decide(id, otto)).status).toBe('approved');
    expect(await stored(id)).toMatchObject({ deciderRole: 'owner', deciderCount: 2 });
  });

  it('refuse a grant if the deciders in its row differ from those in the ledger', async () => {
    await publish('require_approval', { min_role: 'admin' });
    const { id } = await open(action('moving'));
    await decide(id, oscar);
    const { data } = await eventOf('approval.decided', id);
    expect(data.deciders).toEqual({ count: 1, lowest_role: 'owner' });
    await gateway.services.db.approval.update({ where: { id }, data: { deciderCount: 5 } });
    expect((await refusalOf(sidecar.controlPlane.spendApproval(id))).code).toBe('approval.invalid');
  });
});
