import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { revokeOrphans } from '../../../control-plane/workloads/revoke-orphans.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import {
  deleteEnrolmentRule,
  getEnrolmentRule,
  listEnrolmentRules,
  putEnrolmentRule,
} from '../../../shared/contract/enrolment-rules.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWorkloadStage, type WorkloadStage } from './stage.ts';

let stage: WorkloadStage;
beforeAll(async () => {
  stage = await startWorkloadStage();
});
afterAll(() => stage.close());

const owner = () => stage.gateway.owner;
const account = (service_account: string) => ({ service_account });
const ruleEvents = async (name: string) =>
  (await eventsOf(stage.gateway.services, 'default')).filter(
    ({ chain_id }) => chain_id === `enrolment_rules:${name}`,
  );

describe('an enrolment rule', () => {
  it('is stored, listed, replaced and deleted, and the ledger records each change', async () => {
    const stored = await stage.put('first', account('first'));
    expect(stored).toMatchObject({
      ...stage.rule(account('first')),
      name: 'first',
      audience: 'sallyport',
      environment: 'prod',
      written_by: 'owner',
      capabilities: ['pay.*'],
      revoked_sidecars: 0,
    });
    await stage.put('first', { ...account('first'), environment: 'dev', audience: 'own' });
    const got = await owner().call(getEnrolmentRule, { params: { name: 'first' } });
    expect(got).toMatchObject({ environment: 'dev', audience: 'own' });
    expect((await owner().call(listEnrolmentRules)).rules).toContainEqual(got);
    await stage.remove('first');
    const missing = [getEnrolmentRule, deleteEnrolmentRule].map((operation) =>
      refusalOf(owner().call(operation, { params: { name: 'first' } })),
    );
    for (const error of await Promise.all(missing)) {
      expect(error.code).toBe('enrolment_rule.not_found');
    }
    const recorded = await ruleEvents('first');
    expect(recorded.map(({ type }) => type)).toEqual([
      'enrolment_rule.written',
      'enrolment_rule.written',
      'enrolment_rule.removed',
    ]);
    expect(recorded[1]?.data).toMatchObject({ by: 'owner', rule: { environment: 'dev' } });
  });

  it.each([
    [
      'an issuer that is not configured',
      { issuer: 'https://other.example' },
      'enrolment_rule.issuer_unknown',
    ],
    ['a wildcard issuer', { issuer: '*' }, 'enrolment_rule.issuer_unknown'],
    ['a wildcard namespace', { namespace: '*' }, 'args.schema_invalid'],
    ['a wildcard service account', { service_account: 'refund-*' }, 'args.schema_invalid'],
    ['a namespace in upper case', { namespace: 'Billing' }, 'args.schema_invalid'],
    ['an empty audience', { audience: '' }, 'args.schema_invalid'],
    ['an unknown field', { pod: 'x' }, 'args.schema_invalid'],
    ['an unknown environment', { environment: 'test' }, 'args.schema_invalid'],
    ['an agent that does not exist', { agent_id: '0' }, 'agent.not_found'],
    ['every user', { user_id: '*' }, 'args.schema_invalid'],
    ['a reserved principal', { user_id: 'sidecar:sc_1' }, 'args.schema_invalid'],
  ])('is refused with %s', async (_what, more, code) => {
    expect((await refusalOf(stage.put('refused', more))).code).toBe(code);
    const names = (await owner().call(listEnrolmentRules)).rules.map(({ name }) => name);
    expect(names).not.toContain('refused');
  });

  it('is refused if another rule names the same service account, and the error names that rule', async () => {
    await stage.put('taken', account('taken'));
    const error = await refusalOf(stage.put('second', { ...account('taken'), audience: 'other' }));
    expect(error.code).toBe('enrolment_rule.overlap');
    expect(error.message).toContain('taken already names billing/taken');
    expect(error.details).toMatchObject({ status: 409 });
  });

  it('is stored once if two rules for the same service account are written concurrently', async () => {
    const names = Array.from({ length: 6 }, (_, n) => `race-${n}`);
    const results = await Promise.allSettled(names.map((name) => stage.put(name, account('race'))));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const refused = results.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
    expect(new Set(refused)).toEqual(new Set(['enrolment_rule.overlap']));
  });

  it('keeps its sidecars if it is stored again unchanged, or with another audience', async () => {
    await stage.put('kept');
    const enrolled = await stage.enrol(await stage.issuer.token());
    expect((await stage.put('kept')).revoked_sidecars).toBe(0);
    expect((await stage.put('kept', { audience: 'own' })).revoked_sidecars).toBe(0);
    const row = await stage.gateway.services.db.sidecar.findUnique({
      where: { id: enrolled.sidecar_id },
    });
    expect(row?.revokedAt).toBeNull();
    expect((await refusalOf(stage.enrol(await stage.issuer.token()))).code).toBe(
      'workload.audience_mismatch',
    );
    await stage.remove('kept');
  });

  it.each([
    ['agent', async () => ({ agent_id: await stage.gateway.agent('another') })],
    ['user', async () => ({ user_id: 'user-2' })],
    ['environment', async () => ({ environment: 'dev' })],
    ['service account', async () => ({ service_account: 'moved' })],
  ])('revokes its sidecars if its %s changes', async (_what, change) => {
    await stage.put('changing');
    const { sidecar_id } = await stage.enrol(await stage.issuer.token());
    expect((await stage.put('changing', await change())).revoked_sidecars).toBe(1);
    const where = { id: sidecar_id };
    const row = await stage.gateway.services.db.sidecar.findUnique({ where });
    expect(row).toMatchObject({ revokedFor: 'rule', revokedAt: expect.any(Date) });
    await stage.remove('changing');
  });
});

describe('the revocation of a rule’s sidecars', () => {
  it('is completed later if a change of the rule was interrupted, and affects no other sidecars', async () => {
    const { services } = stage.gateway;
    await stage.put('cut');
    const { sidecar_id: id } = await stage.enrol(await stage.issuer.token());
    const others = { where: { revokedAt: null, id: { not: id } } };
    const before = await services.db.sidecar.count(others);
    await services.pool.query(`delete from enrolment_rule where name = 'cut'`);
    await revokeOrphans(services, 'default');
    const row = await services.db.sidecar.findUnique({ where: { id } });
    expect(row).toMatchObject({ revokedFor: 'rule' });
    expect(await services.db.sidecar.count(others)).toBe(before);
  });

  it('includes all sidecars, even if they are more than one batch', async () => {
    const { services } = stage.gateway;
    await stage.put('large');
    const { sidecar_id } = await stage.enrol(await stage.issuer.token());
    const found = await services.db.sidecar.findUniqueOrThrow({ where: { id: sidecar_id } });
    const { report: _report, mac: _mac, ...row } = found;
    for (let n = 0; n < 60; n += 1) {
      const data = { ...row, id: `sc_large_${n}`, podUid: `large-${n}` };
      await services.db.sidecar.create({ data: data as never });
    }
    expect(await stage.remove('large')).toBe(61);
    const live = { where: { ruleName: 'large', revokedAt: null } };
    expect(await services.db.sidecar.count(live)).toBe(0);
  });
});

describe('the permission for enrolment rules', () => {
  it.each(['developer', 'approver', 'auditor', 'agent', 'gateway'] as const)(
    'is not held by a key of role %s',
    async (role) => {
      const client = await stage.gateway.as({ role, scope: 'gateway' });
      const codes = [
        refusalOf(stage.put('theirs', account('theirs'), client)),
        refusalOf(client.call(deleteEnrolmentRule, { params: { name: 'first' } })),
      ];
      for (const error of await Promise.all(codes)) {
        expect(error.code).toBe('auth.insufficient_permission');
      }
    },
  );

  it('does not allow an admin to name a user who holds an owner’s key', async () => {
    await stage.gateway.api.key({ role: 'owner', principal: 'olga' });
    const admin = await stage.gateway.as({ role: 'admin', principal: 'adam' });
    const refused = stage.put('olgas', { ...account('olgas'), user_id: 'Olga' }, admin);
    expect((await refusalOf(refused)).code).toBe('sidecar.grant_exceeds_own');
    expect(await stage.put('olgas', { ...account('olgas'), user_id: 'olga' })).toHaveProperty(
      'name',
    );
  });

  it('does not allow a key that is bound to one agent to write or remove the rule of another agent', async () => {
    const bound = await stage.gateway.as({ role: 'admin', agentId: Number(stage.agentId) });
    const agent_id = await stage.gateway.agent('victim');
    await stage.put('victims', { ...account('victims'), agent_id });
    const body = stage.rule(account('victims'));
    const params = { name: 'victims' };
    const refusals = [
      bound.call(putEnrolmentRule, { params, body }),
      bound.call(putEnrolmentRule, { params: { name: 'x' }, body: { ...body, agent_id } }),
      bound.call(deleteEnrolmentRule, { params }),
    ];
    const codes = (await Promise.all(refusals.map(refusalOf))).map(({ code }) => code);
    expect(codes[0]).toMatch(/^agent\.mismatch$|^sidecar\.grant_exceeds_own$/);
    expect(codes.slice(1)).toEqual(['agent.mismatch', 'agent.mismatch']);
  });

  it('does not allow a developer to add capabilities to an agent that has an enrolment rule', async () => {
    const agent_id = await stage.gateway.agent('narrow', ['notes.read']);
    await stage.put('narrow', { ...account('narrow'), agent_id });
    const developer = await stage.gateway.as({ role: 'developer', principal: 'dev' });
    const body = { name: 'narrow', capabilities: ['notes.read', 'notes.write'] };
    const error = await refusalOf(developer.call(registerAgent, { body }));
    expect(error.code).toBe('agent.widening_refused');
  });

  it('does not extend to the rules of another tenant', async () => {
    await stage.put('private', account('private'));
    const stranger = await stage.gateway.as({ tenantId: 'other' });
    expect((await stranger.call(listEnrolmentRules)).rules).toEqual([]);
    for (const operation of [getEnrolmentRule, deleteEnrolmentRule]) {
      const error = await refusalOf(stranger.call(operation, { params: { name: 'private' } }));
      expect(error.code).toBe('enrolment_rule.not_found');
    }
  });
});

it('the embedded database, which has one connection, enrols pods, changes rules and refuses forged ones', async () => {
  const embedded = await startWorkloadStage({ databaseUrl: 'embedded' });
  try {
    await embedded.put('refunds');
    const enrol = async () => embedded.enrol(await embedded.issuer.token());
    const all = await Promise.all([enrol(), enrol(), enrol()]);
    expect(new Set(all.map((one) => one.sidecar_id)).size).toBe(3);
    expect(await embedded.put('refunds', { user_id: 'user-2' })).toMatchObject({
      revoked_sidecars: 1,
    });
    const { pool } = embedded.gateway.services;
    await pool.query(`update enrolment_rule set user_id = 'ceo'`);
    expect((await refusalOf(enrol())).code).toBe('integrity.forged_row');
    expect(await embedded.remove('refunds')).toBe(0);
  } finally {
    await embedded.close();
  }
});
