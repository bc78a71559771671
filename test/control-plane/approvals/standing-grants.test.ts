import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { getApproval, revokeGrant } from '../../../shared/contract/approvals.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import {
  type Act,
  type ApprovalDesk,
  type Asked,
  startApprovalDesk,
} from '../../support/control-plane/approval-desk.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';

let desk: ApprovalDesk;
beforeAll(async () => {
  desk = await startApprovalDesk();
  const grant = { max_uses: 20, max_ttl_seconds: 86_400, scope: 'tool' };
  const over = (amount: number) => [
    { path: 'tool.name', operator: '==', value: 'wire' },
    { path: 'args.amount', operator: '>', value: amount },
  ];
  await desk.gateway.publish(
    rule('require_approval', 'wire', { approval: { grant } }),
    {
      ...rule('require_approval'),
      name: 'large',
      approval: { grant, min_role: 'admin' },
      when: { all: over(1_000) },
    },
    { ...rule('require_approval'), name: 'huge', when: { all: over(10_000) } },
    rule('require_approval', 'exact', { approval: { grant: { max_uses: 3 } } }),
    rule('require_approval', 'risky', { approval: { grant } }),
    rule('require_approval', 'four', { approval: { grant, quorum: 2 } }),
  );
});
afterAll(() => desk.close());

const ask = async (asked: Asked & { readonly resource: string }) =>
  desk.gateway.owner.call(preflight, { body: desk.action(asked) as never });
const wire = (args: JsonObject = { amount: 40 }, more: Asked = {}) => ({
  tool: 'wire',
  resource: 'account:1',
  args,
  ...more,
});

async function granted(asked: Asked & { readonly resource: string }, grant: JsonObject) {
  const answer = await ask(asked);
  const id = Number(answer.approval_request_id);
  return { id, decided: await desk.decide(id, { action: 'approve', grant } as Act) };
}

const revoke = (id: number) => desk.anna.call(revokeGrant, { params: { id } });

describe('a standing grant', () => {
  it('allows the same action until its uses are exhausted; then an approval is required again', async () => {
    const asked = wire({ amount: 1 });
    const { id, decided } = await granted(asked, { uses: 3 });
    expect(decided.grant).toMatchObject({
      standing: true,
      scope: 'action',
      uses: 3,
      uses_spent: 0,
    });
    for (const use of [1, 2, 3]) {
      expect(await ask(asked)).toMatchObject({
        decision: 'allow',
        reason_code: 'approval.satisfied',
      });
      expect((await desk.stored(id)).usesSpent).toBe(use);
      const other = await ask(wire({ amount: 2 }));
      expect(other.decision).toBe('require_approval');
    }
    const again = await ask(asked);
    expect(again.decision).toBe('require_approval');
    expect(Number(again.approval_request_id)).toBeGreaterThan(id);
    const events = await desk.gateway.services.db.evidenceRow.findMany({
      where: { type: 'approval.used' },
    });
    const uses = events.flatMap(({ canonical }) => {
      const { data } = JSON.parse(canonical);
      return data.approval_id === id ? [[data.use, data.grant_uses]] : [];
    });
    expect(uses).toEqual([
      [1, 3],
      [2, 3],
      [3, 3],
    ]);
  });

  it('allows exactly as many concurrent requests as it has uses', async () => {
    const asked = wire({ amount: 3 });
    await granted(asked, { uses: 7 });
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(asked)));
    expect(answers.filter(({ decision }) => decision === 'allow')).toHaveLength(7);
    expect(answers.filter(({ decision }) => decision === 'require_approval')).toHaveLength(33);
  });

  it('covers any arguments and resources if its scope is tool, but no other tool, user or agent', async () => {
    const { id } = await granted(wire({ amount: 4 }, { user_id: 'carl' }), {
      uses: 20,
      scope: 'tool',
    });
    const carl = { user_id: 'carl' };
    expect((await ask(wire({ amount: 5 }, carl))).decision).toBe('allow');
    expect((await ask({ ...wire({ amount: 6 }, carl), resource: 'account:2' })).decision).toBe(
      'allow',
    );
    expect((await ask(wire({ amount: 5 }, { user_id: 'dora' }))).decision).toBe('require_approval');
    const agent_id = await desk.gateway.agent('another');
    expect((await ask(wire({ amount: 5 }, { ...carl, agent_id }))).decision).toBe(
      'require_approval',
    );
    expect((await ask({ ...wire({ amount: 5 }, carl), tool: 'risky' })).decision).toBe(
      'require_approval',
    );
    await revoke(id);
  });

  it('whose scope is tool does not cover arguments that require a higher role or an approval for each call', async () => {
    const { id } = await granted(wire({ amount: 7 }), { uses: 20, scope: 'tool' });
    expect((await ask(wire({ amount: 8 }))).decision).toBe('allow');
    expect((await ask(wire({ amount: 1_001 }))).decision).toBe('require_approval');
    expect((await ask(wire({ amount: 10_001 }))).decision).toBe('require_approval');
    await revoke(id);
  });

  it('ends when the tool’s manifest changes', async () => {
    const manifest = { name: 'wire', description: 'Sends money.' };
    await desk.gateway.owner.call(ingestTool, { body: { manifest } });
    const { id } = await granted(wire({ amount: 9 }), { uses: 5, scope: 'tool' });
    expect((await ask(wire({ amount: 9 }))).decision).toBe('allow');
    const changed = { manifest: { ...manifest, description: 'Sends all the money.' } };
    const { approval_request_id } = (await desk.gateway.owner.call(ingestTool, {
      body: changed,
    })) as never;
    expect((await ask(wire({ amount: 9 }))).decision).toBe('require_tool_reapproval');
    await desk.decide(Number(approval_request_id), { action: 'approve' }, desk.anna);
    expect((await ask(wire({ amount: 9 }))).decision).toBe('require_approval');
    await revoke(id);
  });

  it('is checked for expiry when it is used', async () => {
    const asked = wire({ amount: 10 });
    const { id } = await granted(asked, { ttl_seconds: 60 });
    expect((await desk.stored(id)).grantUses).toBe(20);
    expect((await ask(asked)).decision).toBe('allow');
    desk.gateway.services.clock.advance(60_000);
    expect((await ask(asked)).decision).toBe('require_approval');
  });

  it('is refused for critical risk, and ends when the tool’s risk becomes critical', async () => {
    const high = { manifest: { name: 'risky', riskTier: 'high' } };
    const ingested = (await desk.gateway.owner.call(ingestTool, { body: high })) as never;
    await desk.decide(
      Number((ingested as JsonObject).approval_request_id),
      { action: 'approve' },
      desk.anna,
    );
    const asked = { tool: 'risky', resource: 'r:1', args: {} };
    const { id } = await granted(asked, { uses: 5 });
    expect((await ask(asked)).decision).toBe('allow');
    const { db } = desk.gateway.services;
    await db.tool.updateMany({ where: { name: 'risky' }, data: { riskTier: 'critical' } });
    const now = await ask(asked);
    expect(now.decision).toBe('require_approval');
    const refused = desk.decide(Number(now.approval_request_id), {
      action: 'approve',
      grant: { uses: 1 },
    } as Act);
    expect((await refusalOf(refused)).code).toBe('approval.grant_refused');
    expect((await desk.stored(id)).usesSpent).toBe(1);
    await expect(
      db.approval.updateMany({ where: { id }, data: { riskTier: 'critical' } }),
    ).rejects.toThrow(/grant_risk_check/);
  });

  it('is not usable while its row differs from the ledger, and is usable after the row is restored', async () => {
    const asked = wire({ amount: 11 });
    const { id } = await granted(asked, { uses: 1 });
    const { db } = desk.gateway.services;
    await db.approval.updateMany({ where: { id }, data: { grantUses: 1_000 } });
    expect((await ask(asked)).decision).not.toBe('allow');
    await db.approval.updateMany({ where: { id }, data: { grantUses: 1 } });
    expect((await ask(asked)).decision).toBe('allow');
    expect((await ask(asked)).decision).not.toBe('allow');
  });

  it('has the narrower terms if two deciders requested different terms', async () => {
    const answer = await ask({ tool: 'four', resource: 'r:1', args: {} });
    const id = Number(answer.approval_request_id);
    const first = { action: 'approve', grant: { uses: 9, scope: 'tool' } } as Act;
    expect(await desk.decide(id, first, desk.anna)).toMatchObject({ votes_missing: 1 });
    const second = { action: 'approve', grant: { uses: 2, ttl_seconds: 600 } } as Act;
    expect((await desk.decide(id, second, desk.ben)).grant).toMatchObject({
      scope: 'action',
      uses: 2,
    });
  });
});

describe('requesting a standing grant', () => {
  const refusals: readonly [string, Asked & { readonly resource: string }, JsonObject][] = [
    ['more uses than the rule allows', { tool: 'exact', resource: 'r:1' }, { uses: 4 }],
    ['more time than the rule allows', { tool: 'exact', resource: 'r:1' }, { ttl_seconds: 3_601 }],
    ['a scope that the rule does not allow', { tool: 'exact', resource: 'r:1' }, { scope: 'tool' }],
    ['a rule that allows no standing grant', { tool: 'refund', resource: 'r:1' }, { uses: 2 }],
    ['two rules, one of which allows no standing grant', wire({ amount: 20_000 }), { uses: 2 }],
  ];
  it.each(refusals)(
    'is refused with 403 and leaves the approval pending: %s',
    async (_name, asked, grant) => {
      const answer = await ask(asked);
      const id = Number(answer.approval_request_id);
      const decided = desk.decide(id, { action: 'approve', grant } as Act, desk.admin);
      expect(await refusalOf(decided)).toMatchObject({ code: 'approval.grant_refused' });
      expect((await desk.stored(id)).status).toBe('pending');
    },
  );

  it('is refused if the agent has a hundred active grants', async () => {
    const agent_id = await desk.gateway.agent('collector');
    const { db, clock } = desk.gateway.services;
    const now = clock.now();
    await db.approval.createMany({
      data: Array.from({ length: 100 }, (_, n) => ({
        tenantId: 'default',
        agentId: agent_id,
        userId: 'u',
        tool: 't',
        resource: 'r',
        riskTier: 'low',
        reasonCode: 'x',
        summary: 'x',
        chainId: `agent:${agent_id}`,
        actionDigest: `digest ${n}`,
        status: 'approved',
        grantScope: 'tool',
        grantUses: 2,
        expiresAt: new Date(now),
        grantExpiresAt: new Date(now + 60_000),
      })),
    });
    const { id } = await desk.request({ ...wire({ amount: 16 }), agent_id });
    const body = { action: 'approve', grant: { uses: 2 } } as Act;
    expect((await refusalOf(desk.decide(id, body))).code).toBe('approval.grant_refused');
    clock.advance(60_001);
    expect((await desk.decide(id, body)).grant).toMatchObject({ uses: 2 });
  });

  it('is refused if the decision is not approve', async () => {
    const { id } = await desk.request({ tool: 'wire' });
    const grant = { uses: 2 };
    for (const act of [
      { action: 'deny', grant },
      { action: 'modify', grant, modified_args: {} },
    ]) {
      expect((await refusalOf(desk.decide(id, act as Act))).code).toBe('approval.grant_refused');
    }
  });

  it.each([
    { uses: 0 },
    { uses: 1_001 },
    { uses: 1.5 },
    { ttl_seconds: 59 },
    { ttl_seconds: 2_592_001 },
    { scope: 'all' },
    { use: 2 },
  ])('is refused with 400 if it is malformed: %j', async (grant) => {
    const { id } = await desk.request({ tool: 'wire' });
    const decided = desk.decide(id, { action: 'approve', grant } as never);
    expect(await refusalOf(decided)).toMatchObject({ code: 'args.schema_invalid' });
  });
});

describe('revoking a grant', () => {
  it('ends the grant at once and returns how often the grant was used', async () => {
    const asked = wire({ amount: 12 });
    const { id } = await granted(asked, { uses: 5 });
    await ask(asked);
    const first = await revoke(id);
    expect(first).toMatchObject({ id, revoked: true, uses_spent: 1 });
    expect((await ask(asked)).decision).toBe('require_approval');
    expect(await revoke(id)).toEqual(first);
    expect(await desk.anna.call(getApproval, { params: { id } })).toMatchObject({
      grant: { uses: 5, uses_spent: 1, revoked_by: 'anna', revoked_at: first.revoked_at },
    });
  });

  it('also ends an unused single-use grant: a passport with its hash is denied', async () => {
    const { asked, id } = await desk.request();
    const { event_hash } = await desk.decide(id, { action: 'approve' });
    await revoke(id);
    const passport = await desk.passport(event_hash);
    const answer = await desk.gateway.owner.call(preflight, { body: { ...asked, passport } });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.grant_revoked' });
  });

  it('is refused if there is no grant or no use is left', async () => {
    const open = await desk.request();
    const denied = await desk.request();
    await desk.decide(denied.id, { action: 'deny' });
    const used = await granted(wire({ amount: 13 }), { uses: 1 });
    await ask(wire({ amount: 13 }));
    for (const { id } of [open, denied, used]) {
      expect((await refusalOf(revoke(id))).code).toBe('approval.transition_invalid');
    }
    expect((await refusalOf(revoke(999_999))).code).toBe('approval.not_found');
    const stranger = await desk.gateway.as({ tenantId: 'other' });
    const theirs = stranger.call(revokeGrant, { params: { id: open.id } });
    expect((await refusalOf(theirs)).code).toBe('approval.not_found');
  });

  it('prevents every later use, even if uses and the revocation are concurrent', async () => {
    const asked = wire({ amount: 14 });
    const { id } = await granted(asked, { uses: 20 });
    const racing = Array.from({ length: 12 }, () => ask(asked));
    const { uses_spent } = await revoke(id);
    const answers = await Promise.all(racing);
    expect(answers.filter(({ decision }) => decision === 'allow')).toHaveLength(uses_spent);
    expect((await desk.stored(id)).usesSpent).toBe(uses_spent);
  });
});

it('each passport with the hash of a standing grant consumes one use', async () => {
  const asked = { ...wire({ amount: 15 }), agent_id: desk.agentId, user_id: 'user-1' };
  const { decided } = await granted(asked, { uses: 2 });
  const reasons: string[] = [];
  for (let use = 0; use < 3; use++) {
    const passport = await desk.passport(decided.event_hash);
    reasons.push((await ask({ ...asked, passport })).reason_code);
  }
  expect(reasons).toEqual(['approval.satisfied', 'approval.satisfied', 'approval.used']);
});
