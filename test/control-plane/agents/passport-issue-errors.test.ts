import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import type { Answer } from '../../support/control-plane/api.ts';
import {
  type DatabaseFaults,
  databaseFaults,
} from '../../support/control-plane/database-faults.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let faults: DatabaseFaults;
let agents = 0;
let agent_id: number;
beforeAll(async () => {
  gateway = await startGateway();
  faults = databaseFaults(gateway.services);
});
beforeEach(async () => {
  agents += 1;
  agent_id = Number(await gateway.agent(`faults ${agents}`, ['pay']));
});
afterEach(() => faults.mend());
afterAll(() => gateway.close());

const issue = (key?: string) =>
  gateway.post('/v1/agents/issue-passport', { agent_id, requested_tools: ['pay'] }, key);
const issueAny = () =>
  gateway.post('/v1/passports/issue', {
    tenant_id: 'default',
    agent_id: String(agent_id),
    user_id: 'u',
    goal: '',
    allowed_tools: ['pay'],
    risk_tier: 'low',
    policy_id: 'p',
    audience: 'gateway://agents',
    ttl_seconds: 60,
  });

/** Expects that the response names the failed step and contains neither the cause nor a passport. */
function expectFailure(answer: Answer, reason_code: string): void {
  expect([answer.status, answer.body?.reason_code]).toEqual([500, reason_code]);
  expect(Object.keys(answer.body ?? {}).sort()).toEqual(['error', 'reason_code']);
  expect(answer.text).not.toMatch(/eyJ|relation|prisma|_away|No space/i);
}

const passports = () =>
  gateway.services.db.passport.count({ where: { agentId: String(agent_id) } });
const issuedEvents = () =>
  gateway.services.db.evidenceRow.count({
    where: { agentId: String(agent_id), type: 'passport.issued' },
  });

describe('the error of a failed passport issue', () => {
  it('is agent.load_failed if the agent cannot be read', async () => {
    await faults.withoutTable('agent');
    expectFailure(await issue(), 'agent.load_failed');
    expectFailure(await issueAny(), 'agent.load_failed');
  });

  it('is policy.load_failed if the policies cannot be read', async () => {
    await faults.withoutTable('policy');
    expectFailure(await issue(), 'policy.load_failed');
    expectFailure(await issueAny(), 'policy.load_failed');
  });

  it('is policy.load_failed if a published policy was changed', async () => {
    const { db } = gateway.services;
    const policy = await db.policy.create({
      data: {
        tenantId: 'default',
        name: 'changed',
        definitionId: 'changed',
        version: 1,
        lifecycle: 'published',
        definition: '{"id":"changed","version":1,"rules":[]}',
        policyHash: `sha256:${'0'.repeat(64)}`,
        createdBy: 'somebody with a database client',
      },
    });
    faults.onMend(`delete from policy where id = ${policy.id}`);
    expectFailure(await issue(), 'policy.load_failed');
    expectFailure(await issueAny(), 'policy.load_failed');
  });

  it('is passport.sign_failed if the signing key cannot be opened', async () => {
    const { db } = gateway.services;
    // The table is removed before the tenant exists. Otherwise, the next round of the publisher would create
    // the tenant's keys.
    await faults.withoutTable('signing_key');
    await db.tenant.create({ data: { id: 'keyless', name: 'keyless' } });
    const key = await gateway.api.key({ tenantId: 'keyless' });
    const data = { tenantId: 'keyless', name: 'bot', capabilities: ['pay'] };
    agent_id = (await db.agent.create({ data })).id;
    expectFailure(await issue(key), 'passport.sign_failed');
    await gateway.services.pool.query(
      `insert into signing_key_away
         select (jsonb_populate_record(known, '{"tenant_id": "keyless"}')).*
           from signing_key_away known where purpose = 'passport' limit 1`,
    );
    await faults.mend();
    expectFailure(await issue(key), 'passport.sign_failed');
    expect(await passports()).toBe(0);
  });

  it('is passport.persist_failed if the passport cannot be stored', async () => {
    await faults.unwritable('passport');
    expectFailure(await issue(), 'passport.persist_failed');
    expectFailure(await issueAny(), 'passport.persist_failed');
    expect([await passports(), await issuedEvents()]).toEqual([0, 0]);
  });

  it('is passport.persist_failed if the passport’s event cannot be stored; in this case, no passport is stored', async () => {
    await faults.unwritable('event_outbox');
    expectFailure(await issue(), 'passport.persist_failed');
    expect(await passports()).toBe(0);
  });

  it('is evidence.seal_failed and returns no token if the passport’s event is not sealed at once', async () => {
    await faults.unwritable('evidence_row');
    expectFailure(await issue(), 'evidence.seal_failed');
    expect(await issuedEvents()).toBe(0);
    await faults.mend();
    // The next seal also seals waiting events.
    await until(async () => {
      expect((await issue()).status).toBe(201);
      return (await issuedEvents()) === (await passports());
    });
  });

  it('is internal.unexpected for any other failure', async () => {
    const unseen = await gateway.api.key();
    await faults.withoutTable('api_key');
    expectFailure(await issue(unseen), 'internal.unexpected');
  });

  it('occurs only while the database is damaged; later requests get passports', async () => {
    await faults.withoutTable('passport');
    expectFailure(await issue(), 'passport.persist_failed');
    await faults.mend();
    expect((await issue()).status).toBe(201);
  });
});

describe('a lost database connection', () => {
  it('causes passport.persist_failed if it occurs during the insert; nothing is stored', async () => {
    const { pool } = gateway.services;
    const locker = await pool.connect();
    try {
      await locker.query('begin; lock table passport in access exclusive mode');
      const issuing = issue();
      const waiting = `select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query ilike '%passport%'`;
      await until(async () => (await pool.query(waiting)).rows.length > 0);
      await pool.query(`select pg_terminate_backend(pid) from (${waiting}) waiting`);
      expectFailure(await issuing, 'passport.persist_failed');
    } finally {
      await locker.query('rollback');
      locker.release();
    }
    expect(await passports()).toBe(0);
    expect((await issue()).status).toBe(201);
  });
});

describe('renewing a passport', () => {
  it('reports a step that fails after the old passport was consumed; neither passport is usable afterwards', async () => {
    const issued = await issue();
    await faults.unwritable('passport');
    const answer = await gateway.post('/v1/agents/renew', {
      agent_id,
      passport: issued.body?.token,
    });
    expectFailure(answer, 'passport.persist_failed');
    await faults.mend();
    const again = await gateway.post('/v1/agents/renew', {
      agent_id,
      passport: issued.body?.token,
    });
    expect([again.status, again.body?.reason_code]).toEqual([403, 'passport.replay_detected']);
    expect(await passports()).toBe(1);
  });

  it('reports which step failed before the old passport was consumed', async () => {
    const issued = await issue();
    const renew = () =>
      gateway.post('/v1/agents/renew', { agent_id, passport: issued.body?.token });
    for (const [table, code] of [
      ['policy', 'policy.load_failed'],
      ['agent', 'agent.load_failed'],
    ] as const) {
      await faults.withoutTable(table);
      expectFailure(await renew(), code);
      await faults.mend();
    }
    // Both failures occurred before the old passport was consumed.
    expect((await renew()).status).toBe(201);
  });
});
