import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { expireApprovals, listApprovals } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import {
  type ApprovalDesk,
  type Asked,
  startApprovalDesk,
} from '../../support/control-plane/approval-desk.ts';
import { type Gateway, refusalOf } from '../../support/control-plane/gateway.ts';

let desk: ApprovalDesk;
let gateway: Gateway;
let anna: Client;
beforeAll(async () => {
  desk = await startApprovalDesk();
  ({ gateway, anna } = desk);
});
afterAll(() => desk.close());

const request: ApprovalDesk['request'] = (more) => desk.request(more);
const decide: ApprovalDesk['decide'] = (id, body, client) => desk.decide(id, body, client);
const passport: ApprovalDesk['passport'] = (hash) => desk.passport(hash);
const stored: ApprovalDesk['stored'] = (id) => desk.stored(id);

describe('the expiry of an approval', () => {
  it('takes effect in the next read, decision or sweep, and is recorded once', async () => {
    const read = await request({ tool: 'quick' });
    const late = await request({ tool: 'quick' });
    gateway.services.clock.advance(61_000);
    const error = await refusalOf(decide(late.id, { action: 'approve' }));
    expect(error.code).toBe('approval.transition_invalid');
    expect(await stored(late.id)).toMatchObject({ status: 'expired' });
    await anna.call(listApprovals);
    expect(await stored(read.id)).toMatchObject({ status: 'expired' });
    const swept = await request({ tool: 'quick' });
    gateway.services.clock.advance(61_000);
    expect((await anna.call(expireApprovals)).expired).toBe(1);
    expect((await anna.call(expireApprovals)).expired).toBe(0);
    const events = await gateway.services.db.evidenceRow.findMany({
      where: { type: 'approval.expired' },
    });
    const ids = events.map(({ canonical }) => JSON.parse(canonical).data.approval_id);
    for (const { id } of [read, late, swept]) {
      expect(ids.filter((other) => other === id)).toHaveLength(1);
    }
  });

  it('allows a new request for the same action', async () => {
    const { asked, id } = await request({ tool: 'quick' });
    gateway.services.clock.advance(61_000);
    const again = await gateway.owner.call(preflight, { body: asked });
    expect(Number(again.approval_request_id)).toBeGreaterThan(id);
  });
});

describe('the grant of an approval', () => {
  async function granted(more: Asked = {}) {
    const { asked, id } = await request(more);
    const { event_hash } = await decide(id, { action: 'approve' });
    return { asked, id, event_hash };
  }

  it('allows one call of exactly the approved action, with a passport that contains the approval’s hash', async () => {
    const { asked, id, event_hash } = await granted();
    const first = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event_hash) },
    });
    expect(first).toMatchObject({ decision: 'allow', reason_code: 'approval.satisfied' });
    expect(await stored(id)).toMatchObject({ usedBy: 'owner' });
    const second = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event_hash) },
    });
    expect(second).toMatchObject({ decision: 'deny', reason_code: 'approval.used' });
  });

  it('is consumed once, even if many concurrent passports contain the approval’s hash', async () => {
    const { asked, event_hash } = await granted();
    const passports = await Promise.all(Array.from({ length: 6 }, () => passport(event_hash)));
    const answers = await Promise.all(
      passports.map((one) => gateway.owner.call(preflight, { body: { ...asked, passport: one } })),
    );
    expect(answers.filter(({ decision }) => decision === 'allow')).toHaveLength(1);
  });

  it.each([
    ['other arguments', { args: { amount: 41 } }],
    ['another resource', { resource: 'payment:other' }],
    ['another tool', { tool: 'quick' }],
  ])('does not cover %s', async (_what, more) => {
    const { asked, event_hash } = await granted();
    const answer = await gateway.owner.call(preflight, {
      body: { ...asked, ...more, passport: await passport(event_hash) },
    });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.invalid' });
  });

  it('is refused if the passport’s hash belongs to a ledger row that is not an approval', async () => {
    const { asked, id } = await request();
    const event = await gateway.services.db.evidenceRow.findFirstOrThrow({
      where: { type: 'decision', chainId: `agent:${desk.agentId}` },
    });
    await gateway.services.db.approval.update({
      where: { id },
      data: {
        status: 'approved',
        eventId: event.eventId,
        eventHash: event.eventHash,
        grantExpiresAt: new Date(gateway.services.clock.now() + 60_000),
      },
    });
    const answer = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event.eventHash) },
    });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.invalid' });
  });

  it('expires after its validity period', async () => {
    const { asked, event_hash } = await granted();
    gateway.services.clock.advance(3600_000);
    const answer = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event_hash) },
    });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.expired' });
  });

  it('allows the modified action, not the proposed one, if the decider modified the arguments', async () => {
    const { asked, id } = await request();
    const modified_args = { amount: 10 };
    const { event_hash } = await decide(id, { action: 'modify', modified_args });
    const proposed = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event_hash) },
    });
    expect(proposed.reason_code).toBe('approval.invalid');
    const modified = await gateway.owner.call(preflight, {
      body: { ...asked, args: modified_args, passport: await passport(event_hash) },
    });
    expect(modified.reason_code).toBe('approval.satisfied');
    const { approvals } = await anna.call(listApprovals, { query: { status: 'modified' } });
    expect(approvals.find((one) => one.id === id)).toMatchObject({
      proposed_args: { amount: 40 },
      effective_args: modified_args,
    });
  });

  it('is not created by a denial', async () => {
    const { asked, id } = await request();
    const { event_hash } = await decide(id, { action: 'deny' });
    const answer = await gateway.owner.call(preflight, {
      body: { ...asked, passport: await passport(event_hash) },
    });
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'approval.invalid' });
  });
});
