import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { userRoutes } from '../../../control-plane/users/routes.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { getApproval } from '../../../shared/contract/approvals.ts';
import { type Role, roles } from '../../../shared/contract/keys.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { putUser } from '../../../shared/contract/users.ts';
import type { ApprovalAction, ApprovalState } from '../../../shared/vocabulary/approval-states.ts';
import { loadVectors } from '../../shared/load-vectors.ts';
import { startApi } from '../../support/control-plane/api.ts';
import {
  type Act,
  type ApprovalDesk,
  type Asked,
  startApprovalDesk,
} from '../../support/control-plane/approval-desk.ts';
import { refusalOf, roomyLimits, rule } from '../../support/control-plane/gateway.ts';

interface TransitionVector {
  readonly name: string;
  readonly from: ApprovalState;
  readonly action: ApprovalAction;
  readonly to?: ApprovalState;
  readonly refused?: string;
  readonly after?: 'reauthenticated' | 'manifestApproved';
}

let desk: ApprovalDesk;
let approverKey: string;
let adminKey: string;
beforeAll(async () => {
  desk = await startApprovalDesk();
  const { api, owner, publish } = desk.gateway;
  approverKey = await api.key({ role: 'approver', principal: 'anna' });
  adminKey = await api.key({ role: 'admin', principal: 'adam' });
  await publish(
    rule('require_approval', 'needs.approver', { approval: { min_role: 'approver' } }),
    rule('require_approval', 'needs.admin', { approval: { min_role: 'admin' } }),
    rule('require_approval', 'needs.owner', { approval: { min_role: 'owner' } }),
    rule('require_approval', 'registered'),
  );
  await owner.call(ingestTool, { body: { manifest: { name: 'registered', riskTier: 'low' } } });
});
afterAll(() => desk.close());

const decide = (id: number, body: Act, key: string) =>
  desk.gateway.post(`/v1/approvals/${id}/decide`, body, key);

const act = (action: ApprovalAction): Act =>
  action === 'modify' ? { action, modified_args: { amount: 1 } } : { action };

/** The action that leads from `pending` to a state; undefined for `pending` itself. */
const leadsTo: Readonly<Record<ApprovalState, ApprovalAction | undefined>> = {
  pending: undefined,
  context_requested: 'request_context',
  reauth_required: 'require_reauth',
  tool_reapproval_required: 'require_tool_reapproval',
  escalated: 'escalate',
  approved: 'approve',
  denied: 'deny',
  modified: 'modify',
  expired: 'expire',
};

async function approvalIn(state: ApprovalState, more: Asked) {
  const { asked, id } = await desk.request(more);
  const action = leadsTo[state];
  if (action !== undefined) {
    expect(await decide(id, act(action), approverKey)).toMatchObject({ body: { status: state } });
  }
  return { asked, id };
}

const vectors = loadVectors<TransitionVector>('approval/transitions.yaml');
const cells = Array.from({ length: 9 }, (_, n) => vectors.slice(n * 8, n * 8 + 8));

describe('the table of approval transitions', () => {
  it('has a cell for each combination of nine states and eight acts', () => {
    expect(vectors).toHaveLength(72);
    expect(cells.every((row) => new Set(row.map(({ from }) => from)).size === 1)).toBe(true);
  });

  it.each(cells.map((row) => [row[0]?.from, row] as const))(
    'matches the API for an approval in state %s: every act has the result that the table states',
    async (_from, row) => {
      await Promise.all(row.map(checkCell));
    },
  );
});

async function checkCell({ name, from, action, to, refused, after }: TransitionVector) {
  const { id, asked } = await approvalIn(from, {});
  const answer = await decide(id, act(action), adminKey);
  const code = refused ?? (after === undefined ? undefined : 'approval.precondition_unmet');
  if (code !== undefined) {
    expect(answer, name).toMatchObject({ status: 409, body: { reason_code: code } });
    expect(await desk.stored(id), name).toMatchObject({ status: from });
  } else {
    expect(answer, name).toMatchObject({ status: 200, body: { status: to } });
    expect(await desk.stored(id), name).toMatchObject({ status: to });
  }
  if (after === 'reauthenticated') await whenReauthenticated({ id, asked, action, to });
  if (after === 'manifestApproved') await whenManifestApproved(action, to);
}

interface Later {
  readonly id: number;
  readonly asked: Awaited<ReturnType<ApprovalDesk['request']>>['asked'];
  readonly action: ApprovalAction;
  readonly to: ApprovalState | undefined;
}

async function whenReauthenticated({ id, asked, action, to }: Later): Promise<void> {
  desk.gateway.services.clock.advance(1_000);
  const passport = await desk.passport(null);
  await desk.gateway.owner.call(preflight, { body: { ...asked, passport } });
  expect(await decide(id, act(action), adminKey)).toMatchObject({ body: { status: to } });
}

async function whenManifestApproved(action: ApprovalAction, to: ApprovalState | undefined) {
  const { id } = await approvalIn('tool_reapproval_required', { tool: 'registered' });
  expect(await decide(id, act(action), adminKey)).toMatchObject({ body: { status: to } });
}

describe('the right to decide an approval', () => {
  const deciders: readonly Role[] = ['approver', 'admin', 'owner'];
  const matrix = deciders.flatMap((minRole) => roles.map((role) => ({ minRole, role })));

  it.each(matrix)(
    'depends on the role: the decider has role $role, and the approval requires role $minRole',
    async ({ minRole, role }) => {
      const { id } = await desk.request({ tool: `needs.${minRole}` });
      const scope = role === 'gateway' ? 'gateway' : 'tenant';
      const key = await desk.gateway.api.key({ role, scope, principal: 'somebody' });
      const answer = await decide(id, { action: 'approve' }, key);
      const isDecider = deciders.includes(role);
      if (isDecider && deciders.indexOf(role) >= deciders.indexOf(minRole)) {
        expect(answer).toMatchObject({ status: 200, body: { status: 'approved' } });
        return;
      }
      const reason_code = isDecider ? 'approval.role_insufficient' : 'auth.insufficient_permission';
      expect(answer).toMatchObject({ status: 403, body: { reason_code } });
      expect(await desk.stored(id)).toMatchObject({ status: 'pending' });
    },
  );

  it.each(['user-1', 'USER-1', ' user-1 ', 'user\u200b-1', 'ｕser-1'])(
    'is denied to the user who made the request, with the user id spelled %j',
    async (principal) => {
      const { id } = await desk.request();
      const key = await desk.gateway.api.key({ role: 'owner', principal });
      for (const action of ['approve', 'deny', 'modify', 'escalate', 'request_context'] as const) {
        expect(await decide(id, act(action), key)).toMatchObject({
          status: 403,
          body: { reason_code: 'approval.self_decision' },
        });
      }
      expect(await desk.stored(id)).toMatchObject({ status: 'pending' });
    },
  );

  it('is denied to the requesting agent, with its id or `agent:<id>` as the principal, or with a key bound to it', async () => {
    const { id } = await desk.request();
    const { api } = desk.gateway;
    const keys = await Promise.all([
      api.key({ role: 'owner', principal: desk.agentId }),
      api.key({ role: 'owner', principal: `agent:${desk.agentId}` }),
      api.key({ role: 'owner', principal: 'zoe', agentId: Number(desk.agentId) }),
    ]);
    for (const key of keys) {
      expect(await decide(id, { action: 'approve' }, key)).toMatchObject({
        status: 403,
        body: { reason_code: 'approval.self_decision' },
      });
    }
  });

  it('is denied to the requesting user, identified by the user’s address in the directory', async () => {
    const { services } = desk.gateway;
    const users = await startApi(userRoutes(services), services, { limits: roomyLimits });
    const owner = await users.client();
    const body = { email: 'mail@acme.test', role: 'clerk' };
    await owner.call(putUser, { params: { id: 'user-m' }, body } as never);
    await users.close();
    const { id } = await desk.request({ user_id: 'user-m' });
    const key = await desk.gateway.api.key({ role: 'owner', principal: 'Mail@Acme.test' });
    expect(await decide(id, { action: 'approve' }, key)).toMatchObject({ status: 403 });
  });

  it('gives only one vote to a person with two keys and two spellings of the name', async () => {
    const { id } = await desk.request({ tool: 'two' });
    const { api } = desk.gateway;
    const first = await api.key({ role: 'approver', principal: 'anna' });
    const again = await api.key({ role: 'owner', principal: 'Anna ' });
    expect(await decide(id, { action: 'approve' }, first)).toMatchObject({
      status: 200,
      body: { status: 'pending', votes_missing: 1 },
    });
    desk.gateway.services.clock.advance(1_000);
    for (const key of [first, again]) {
      expect(await decide(id, { action: 'approve' }, key)).toMatchObject({
        status: 409,
        body: { reason_code: 'approval.already_voted' },
      });
    }
    expect(await decide(id, { action: 'approve' }, adminKey)).toMatchObject({
      body: { status: 'approved', votes_missing: 0 },
    });
    const { votes } = await desk.anna.call(getApproval, { params: { id } });
    expect(votes.map(({ principal, role, action }) => [principal, role, action])).toEqual([
      ['anna', 'approver', 'approve'],
      ['adam', 'admin', 'approve'],
    ]);
  });

  it('requires a higher role after each escalation, and excludes the person who escalated', async () => {
    const { id } = await desk.request({ tool: 'needs.admin' });
    const ownerKey = await desk.gateway.api.key({ role: 'owner', principal: 'olga' });
    await decide(id, { action: 'escalate' }, adminKey);
    expect(await desk.stored(id)).toMatchObject({ minRole: 'owner', escalatedBy: 'adam' });
    const promoted = await desk.gateway.api.key({ role: 'owner', principal: 'ADAM' });
    expect(await decide(id, { action: 'approve' }, promoted)).toMatchObject({
      status: 409,
      body: { reason_code: 'approval.already_voted' },
    });
    expect(await decide(id, { action: 'approve' }, ownerKey)).toMatchObject({
      body: { status: 'approved', decided_by: 'olga' },
    });
  });
});

describe('the lifetime of an approval request', () => {
  const windows: readonly [string, string, number][] = [
    ['an hour by default', 'refund', 3_600],
    ['the value in the rule', 'quick', 60],
  ];
  it.each(windows)(
    'is %s, exact to the millisecond in reads and decisions',
    async (_name, tool, seconds) => {
      const { clock } = desk.gateway.services;
      const [read, decided] = [await desk.request({ tool }), await desk.request({ tool })];
      const closes = (await desk.stored(read.id)).expiresAt.getTime();
      expect(closes - (await desk.stored(read.id)).requestedAt.getTime()).toBe(seconds * 1_000);
      const show = () => desk.anna.call(getApproval, { params: { id: read.id } });
      clock.advance(closes - clock.now() - 1);
      expect((await show()).status).toBe('pending');
      clock.advance(2);
      expect((await show()).status).toBe('expired');
      clock.advance(60_000);
      expect(await decide(decided.id, { action: 'approve' }, adminKey)).toMatchObject({
        status: 409,
        body: { reason_code: 'approval.transition_invalid' },
      });
      expect(await desk.stored(decided.id)).toMatchObject({
        status: 'expired',
        effectiveDigest: null,
      });
    },
  );

  it('is the tenant’s setting if the rule states no lifetime', async () => {
    const { db } = desk.gateway.services;
    const set = (approvalSlaSeconds: number) =>
      db.tenant.update({ where: { id: 'default' }, data: { approvalSlaSeconds } });
    await set(90);
    const { id } = await desk.request();
    await set(3_600);
    const { expiresAt, requestedAt } = await desk.stored(id);
    expect(expiresAt.getTime() - requestedAt.getTime()).toBe(90_000);
  });
});

describe('reading one approval', () => {
  it('returns the proposed and the effective arguments to deciders only', async () => {
    const { id } = await desk.request({ args: { amount: 40 } });
    await desk.decide(id, { action: 'modify', modified_args: { amount: 25 } });
    const shown = await desk.anna.call(getApproval, { params: { id } });
    expect(shown).toMatchObject({
      id,
      status: 'modified',
      proposed_args: { amount: 40 },
      effective_args: { amount: 25 },
      grant: { standing: false, scope: 'action', uses: 1, uses_spent: 0 },
    });
    expect(shown.effective_digest).not.toBe(shown.action_digest);
    const auditor = await desk.gateway.as({ role: 'auditor' });
    const seen = await auditor.call(getApproval, { params: { id } });
    expect(seen).not.toHaveProperty('proposed_args');
    expect(seen).not.toHaveProperty('effective_args');
  });

  it('returns approval.not_found if the approval does not exist or belongs to another tenant', async () => {
    const { id } = await desk.request();
    const stranger = await desk.gateway.as({ tenantId: 'other' });
    const theirs = await refusalOf(stranger.call(getApproval, { params: { id } }));
    const none = await refusalOf(desk.anna.call(getApproval, { params: { id: 2_000_000 } }));
    expect([theirs.code, none.code]).toEqual(['approval.not_found', 'approval.not_found']);
  });
});
