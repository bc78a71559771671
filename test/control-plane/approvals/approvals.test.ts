import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { renewAgentPassport } from '../../../shared/contract/agent-passports.ts';
import { listApprovals } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import {
  type Act,
  type ApprovalDesk,
  startApprovalDesk,
} from '../../support/control-plane/approval-desk.ts';
import { type Gateway, refusalOf } from '../../support/control-plane/gateway.ts';

let desk: ApprovalDesk;
let gateway: Gateway;
let anna: Client;
let ben: Client;
let admin: Client;
beforeAll(async () => {
  desk = await startApprovalDesk();
  ({ gateway, anna, ben, admin } = desk);
});
afterAll(() => desk.close());

const request: ApprovalDesk['request'] = (more) => desk.request(more);
const decide: ApprovalDesk['decide'] = (id, body, client) => desk.decide(id, body, client);
const passport: ApprovalDesk['passport'] = (hash) => desk.passport(hash);
const stored: ApprovalDesk['stored'] = (id) => desk.stored(id);

describe('requesting an approval', () => {
  it('opens an approval for an action; a second request for the same action returns the same approval', async () => {
    const { asked, id } = await request();
    expect(Number.isInteger(id)).toBe(true);
    const again = await gateway.owner.call(preflight, { body: asked });
    expect(again.approval_request_id).toBe(String(id));
    const other = await gateway.owner.call(preflight, { body: { ...asked, args: { amount: 41 } } });
    expect(other.approval_request_id).not.toBe(String(id));
  });

  it('opens one approval for many concurrent requests of one action', async () => {
    const asked = desk.action();
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => gateway.owner.call(preflight, { body: asked })),
    );
    expect(new Set(answers.map(({ approval_request_id }) => approval_request_id)).size).toBe(1);
  });

  it('is refused when a hundred approvals are open', async () => {
    const flooder = await gateway.agent('flooder');
    const { db, clock } = gateway.services;
    await db.approval.createMany({
      data: Array.from({ length: 100 }, (_, n) => ({
        tenantId: 'default',
        agentId: flooder,
        userId: 'u',
        tool: 't',
        resource: 'r',
        riskTier: 'low',
        reasonCode: 'x',
        summary: 'x',
        chainId: `agent:${flooder}`,
        actionDigest: `digest ${n}`,
        expiresAt: new Date(clock.now() + 60_000),
      })),
    });
    const { answer } = await request({ agent_id: flooder });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.too_many_open' });
    clock.advance(61_000);
    expect((await request({ agent_id: flooder })).answer.decision).toBe('require_approval');
  });
});

describe('the approval queue', () => {
  it('shows the arguments to deciders only', async () => {
    const { id } = await request({ args: { iban: 'DE99' } });
    const find = async (client: Client) => {
      const { approvals } = await client.call(listApprovals, { query: { limit: 1 } });
      return approvals[0];
    };
    expect(await find(anna)).toMatchObject({ id, proposed_args: { iban: 'DE99' } });
    const auditor = await gateway.as({ role: 'auditor' });
    expect(await find(auditor)).toMatchObject({ id });
    expect(await find(auditor)).not.toHaveProperty('proposed_args');
    const row = await stored(id);
    expect(row.proposedArgs).not.toContain('DE99');
  });

  it('filters by status, and pages without omissions or duplicates', async () => {
    const ids = [(await request()).id, (await request()).id, (await request()).id];
    const seen: number[] = [];
    let cursor: string | null = null;
    do {
      const query: { status: 'pending'; limit: number; cursor?: string } = {
        status: 'pending',
        limit: 2,
      };
      if (cursor !== null) query.cursor = cursor;
      const page = await anna.call(listApprovals, { query });
      seen.push(...page.approvals.map(({ id }) => id));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toEqual(expect.arrayContaining(ids));
    expect(seen).toEqual([...seen].sort((a, b) => b - a));
  });

  it('does not show another tenant’s approvals or allow decisions on them', async () => {
    const { id } = await request();
    const stranger = await gateway.as({ tenantId: 'other' });
    expect(await stranger.call(listApprovals)).toEqual({ approvals: [], next_cursor: null });
    const error = await refusalOf(decide(id, { action: 'approve' }, stranger));
    expect(error.code).toBe('approval.not_found');
    expect(await stored(id)).toMatchObject({ status: 'pending' });
  });
});

describe('deciding an approval', () => {
  it('records the decider and the action in a ledger row and returns the row’s hash', async () => {
    const { id } = await request();
    const decided = await decide(id, { action: 'approve', comment: 'fine' });
    expect(decided).toMatchObject({ status: 'approved', decided_by: 'anna', votes_missing: 0 });
    const row = await gateway.services.db.evidenceRow.findFirstOrThrow({
      where: { tenantId: 'default', eventHash: decided.event_hash },
    });
    expect(row).toMatchObject({ type: 'approval.decided', chainId: `agent:${desk.agentId}` });
    expect(JSON.parse(row.canonical).data).toMatchObject({
      by: 'anna',
      action: 'approve',
      approval_id: id,
      comment: 'fine',
    });
    expect(await stored(id)).toMatchObject({ eventHash: decided.event_hash, decidedBy: 'anna' });
  });

  it.each(['approve', 'deny', 'modify', 'request_context', 'escalate', 'expire'])(
    'is refused with 409 for the act %s if the approval is closed',
    async (act) => {
      const { id } = await request();
      await decide(id, { action: 'deny' });
      const body = act === 'modify' ? { action: act, modified_args: {} } : { action: act };
      const answer = await gateway.post(`/v1/approvals/${id}/decide`, body, await approverKey());
      expect(answer).toMatchObject({
        status: 409,
        body: { reason_code: 'approval.transition_invalid' },
      });
    },
  );

  it('succeeds for exactly one of two concurrent deciders', async () => {
    for (let round = 0; round < 5; round++) {
      const { id } = await request();
      const results = await Promise.allSettled([
        decide(id, { action: 'approve' }, anna),
        decide(id, { action: 'deny' }, ben),
      ]);
      expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      const votes = await gateway.services.db.approvalVote.count({ where: { approvalId: id } });
      expect(votes).toBe(1);
    }
  });

  it('is refused for the requesting user, whether identified by id or by address in the directory', async () => {
    const { db } = gateway.services;
    await db.directoryUser.create({
      data: { tenantId: 'default', id: 'user-9', email: 'nine@example.org' },
    });
    const { id } = await request({ user_id: 'user-9' });
    for (const principal of ['user-9', 'USER-9', 'nine@example.org']) {
      const self = await gateway.as({ role: 'owner', principal });
      const error = await refusalOf(decide(id, { action: 'approve' }, self));
      expect(error.code).toBe('approval.self_decision');
      expect(error.details).toMatchObject({ status: 403 });
    }
  });

  it('requires the role that the rule names', async () => {
    const { id } = await request({ tool: 'boss' });
    const error = await refusalOf(decide(id, { action: 'approve' }));
    expect(error.code).toBe('approval.role_insufficient');
    expect(await decide(id, { action: 'approve' }, admin)).toMatchObject({ status: 'approved' });
  });

  it('requires the number of different deciders that the rule states', async () => {
    const { id } = await request({ tool: 'two' });
    const first = await decide(id, { action: 'approve' });
    expect(first).toMatchObject({ status: 'pending', votes_missing: 1 });
    expect((await refusalOf(decide(id, { action: 'approve' }))).code).toBe(
      'approval.already_voted',
    );
    expect(await decide(id, { action: 'approve' }, ben)).toMatchObject({ status: 'approved' });
  });

  it('counts both of two concurrent votes towards a quorum of two', async () => {
    const { id } = await request({ tool: 'two' });
    await Promise.all([
      decide(id, { action: 'approve' }, anna),
      decide(id, { action: 'approve' }, ben),
    ]);
    expect(await stored(id)).toMatchObject({ status: 'approved' });
  });

  it('adds votes together only if they contain the same modification', async () => {
    const { id } = await request({ tool: 'two' });
    const modify = (amount: number) => ({ action: 'modify', modified_args: { amount } }) as Act;
    expect(await decide(id, modify(1))).toMatchObject({ status: 'pending' });
    expect(await decide(id, modify(2), ben)).toMatchObject({ status: 'pending' });
    expect(await decide(id, modify(1), admin)).toMatchObject({ status: 'modified' });
  });

  it('counts both of two concurrent votes that contain the same modification', async () => {
    const modify = (amount: number) => ({ action: 'modify', modified_args: { amount } }) as Act;
    for (let round = 0; round < 5; round++) {
      const { id } = await request({ tool: 'two' });
      await Promise.all([decide(id, modify(1), anna), decide(id, modify(1), ben)]);
      expect(await stored(id)).toMatchObject({ status: 'modified' });
      const other = await request({ tool: 'two' });
      await Promise.all([decide(other.id, modify(1), anna), decide(other.id, modify(2), ben)]);
      expect(await stored(other.id)).toMatchObject({ status: 'pending', effectiveArgs: null });
    }
  });

  it('requires a higher role after an escalation, and excludes the person who escalated', async () => {
    const { id } = await request();
    await decide(id, { action: 'escalate' }, admin);
    expect((await refusalOf(decide(id, { action: 'approve' }))).code).toBe(
      'approval.role_insufficient',
    );
    const own = await refusalOf(decide(id, { action: 'approve' }, admin));
    expect(own.code).toBe('approval.already_voted');
    expect(await decide(id, { action: 'approve' }, gateway.owner)).toMatchObject({
      status: 'approved',
    });
  });

  it('is refused until the user authenticates again, if a decider requires this', async () => {
    const { asked, id } = await request();
    const old = await passport(null);
    gateway.services.clock.advance(1_000);
    await decide(id, { action: 'require_reauth' });
    gateway.services.clock.advance(1_000);
    const early = await refusalOf(decide(id, { action: 'approve' }));
    expect(early.code).toBe('approval.precondition_unmet');
    await gateway.owner.call(preflight, { body: { ...asked, passport: old } });
    expect((await refusalOf(decide(id, { action: 'approve' }))).code).toBe(
      'approval.precondition_unmet',
    );
    const fresh = await passport(null);
    await gateway.owner.call(preflight, { body: { ...asked, passport: fresh } });
    expect(await decide(id, { action: 'approve' })).toMatchObject({ status: 'approved' });
  });

  it('does not count the renewal of an earlier passport as authentication', async () => {
    const old = await passport(null);
    const { asked, id } = await request();
    await decide(id, { action: 'require_reauth' });
    gateway.services.clock.advance(1_000);
    const renewed = await gateway.owner.call(renewAgentPassport, {
      body: { agent_id: Number(desk.agentId), passport: old },
    });
    await gateway.owner.call(preflight, { body: { ...asked, passport: renewed.token } });
    expect((await refusalOf(decide(id, { action: 'approve' }))).code).toBe(
      'approval.precondition_unmet',
    );
    await gateway.owner.call(preflight, { body: { ...asked, passport: await passport(null) } });
    expect(await decide(id, { action: 'approve' })).toMatchObject({ status: 'approved' });
  });

  it('is refused until the tool is approved again, if a decider requires this', async () => {
    const { id } = await request({ tool: 'typed' });
    await decide(id, { action: 'require_tool_reapproval' });
    const early = await refusalOf(decide(id, { action: 'approve' }));
    expect(early.code).toBe('approval.precondition_unmet');
    await gateway.owner.call(ingestTool, { body: { manifest: { name: 'typed' } } });
    expect(await decide(id, { action: 'approve' })).toMatchObject({ status: 'approved' });
  });

  it('refuses modified arguments that do not match the tool’s approved schema', async () => {
    const inputSchema = { type: 'object', properties: { amount: { type: 'number' } } };
    const manifest = { name: 'typed', riskTier: 'low', inputSchema };
    const { approval_request_id } = await gateway.owner.call(ingestTool, { body: { manifest } });
    if (approval_request_id !== undefined) {
      await decide(Number(approval_request_id), { action: 'approve' });
    }
    const { id } = await request({ tool: 'typed' });
    const modify = { action: 'modify', modified_args: { amount: 'all' } };
    expect((await refusalOf(decide(id, modify))).code).toBe('args.schema_invalid');
    expect(await stored(id)).toMatchObject({ status: 'pending' });
  });

  it.each([
    [{ action: 'modify' }],
    [{ action: 'approve', modified_args: { amount: 1 } }],
    [{ action: 'bless' }],
    [{}],
  ])('refuses the malformed decision %j', async (body) => {
    const { id } = await request();
    const error = await refusalOf(decide(id, body as Act));
    expect(error.code).toBe('args.schema_invalid');
  });

  it('refuses an approval whose action was changed in the database', async () => {
    const { id } = await request();
    const { db } = gateway.services;
    await db.approval.update({ where: { id }, data: { resource: 'payment:harmless' } });
    expect((await refusalOf(decide(id, { action: 'approve' }))).code).toBe('approval.invalid');
  });
});

async function approverKey(): Promise<string> {
  return gateway.api.key({ role: 'approver', principal: 'carl' });
}
