import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { registerAgent } from '../../../shared/contract/agents.ts';
import { revokeSidecar } from '../../../shared/contract/sidecars.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWorkloadStage, type WorkloadStage } from './stage.ts';

let stage: WorkloadStage;
beforeAll(async () => {
  stage = await startWorkloadStage();
});
afterAll(() => stage.close());

const sql = (text: string, values: unknown[] = []) =>
  stage.gateway.services.pool.query(text, values);
const enrol = async () => stage.enrol(await stage.issuer.token());

/** Expects that an enrolment is refused because of a forged row, and that it creates no sidecar. */
async function expectRefused(): Promise<void> {
  const { services } = stage.gateway;
  const before = await services.db.sidecar.count();
  const error = await refusalOf(enrol());
  expect(error.code).toBe('integrity.forged_row');
  expect(await services.db.sidecar.count()).toBe(before);
}

describe('a rule is refused if it was written directly to the database:', () => {
  it.each([
    ['another agent', `set agent_id = $1`, async () => stage.gateway.agent('stronger', ['**'])],
    ['another user', `set user_id = $1`, async () => 'ceo'],
    ['another environment', `set environment = $1`, async () => 'dev'],
    ['another audience', `set audience = $1`, async () => 'vault'],
    ['a higher role of its writer', `set writer_role = $1`, async () => 'auditor'],
    ['no signature', `set mac = $1`, async () => null],
  ])('with %s', async (_what, change, value) => {
    await stage.put('changed');
    await sql(`update enrolment_rule ${change} where name = 'changed'`, [await value()]);
    await expectRefused();
    await stage.remove('changed');
  });

  it('with another service account', async () => {
    await stage.put('moved', { service_account: 'another' });
    await sql(`update enrolment_rule set service_account = 'refund-agent' where name = 'moved'`);
    await expectRefused();
    await stage.remove('moved');
  });

  it('as the rule of another tenant, moved to this tenant', async () => {
    const stranger = await stage.gateway.as({ tenantId: 'other' });
    const body = { name: 'theirs', capabilities: ['**'] };
    const { agent_id } = await stranger.call(registerAgent, { body });
    await stage.put('theirs', { agent_id: String(agent_id) }, stranger);
    await sql(`update enrolment_rule set tenant_id = 'default' where name = 'theirs'`);
    await expectRefused();
    await sql(`delete from enrolment_rule where name = 'theirs'`);
  });

  it('as the restored row of a removed rule', async () => {
    await stage.put('removed');
    await sql(`create table kept as select * from enrolment_rule where name = 'removed'`);
    await stage.remove('removed');
    await sql(`insert into enrolment_rule select * from kept`);
    await expectRefused();
    await stage.remove('removed');
    await sql(`drop table kept`);
  });

  it('as the restored earlier row of a changed rule; the ledger’s incident names the row', async () => {
    const strong = await stage.gateway.agent('once allowed', ['**']);
    await stage.put('narrowed', { agent_id: strong });
    await sql(`create table kept as select * from enrolment_rule where name = 'narrowed'`);
    await stage.put('narrowed');
    await sql(`delete from enrolment_rule where name = 'narrowed'`);
    await sql(`insert into enrolment_rule select * from kept`);
    await expectRefused();
    const incidents = (await eventsOf(stage.gateway.services, 'default')).filter(
      ({ type, data }) => type === 'integrity.forged_row' && data.table === 'enrolment_rule',
    );
    expect(incidents.map(({ data }) => data.row_id)).toContain('narrowed');
    await stage.remove('narrowed');
    await sql(`drop table kept`);
  });

  it('as the restored row of a removed rule, even with a forged outbox row for an event of the rule', async () => {
    const { services } = stage.gateway;
    await stage.put('replayed');
    const [event] = (await eventsOf(services, 'default')).filter(
      ({ chain_id }) => chain_id === 'enrolment_rules:replayed',
    );
    await sql(`create table kept as select * from enrolment_rule where name = 'replayed'`);
    await stage.remove('replayed');
    await sql(`insert into enrolment_rule select * from kept`);
    await sql(
      `insert into event_outbox (tenant_id, event_id, event, mac) values ('default', $1, '{}', 'x')`,
      [event?.id],
    );
    await expectRefused();
    await sql(`delete from event_outbox where event_id = $1`, [event?.id]);
    await sql(`drop table kept`);
    await stage.remove('replayed');
  });
});

describe('a sidecar row that was changed directly in the database', () => {
  it.each([
    ['whose revocation by an operator has another reason', `set revoked_for = 'rule'`],
    ['whose revocation was removed', `set revoked_at = null, revoked_for = null`],
  ])('blocks the enrolment of its pod: a row %s', async (_what, change) => {
    await stage.put('refunds');
    const { sidecar_id: id } = await enrol();
    await stage.gateway.owner.call(revokeSidecar, { params: { id } });
    await sql(`update sidecar ${change} where id = $1`, [id]);
    await expectRefused();
    await sql(`delete from sidecar where id = $1`, [id]);
  });
});
