import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  activeVersions,
  type Query,
  sinceStatement,
} from '../../../control-plane/integrity/active-versions.ts';
import { sweepRows } from '../../../control-plane/integrity/sweep.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import type { KnownLedgers } from '../../../control-plane/platform/integrity/known-ledgers.ts';
import { builders } from '../../../control-plane/publishing/build-sections.ts';
import { putUser } from '../../../control-plane/users/put-user.ts';
import { deleteBinding, putBinding } from '../../../shared/contract/bindings.ts';
import { armKillSwitch, disarmKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { revokePassport } from '../../../shared/contract/passports.ts';
import { updatePolicy } from '../../../shared/contract/policies/policies.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { until } from '../../support/base/until.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { incidentsOf } from './forgery-stage.ts';

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent();
  await gateway.publish(rule('allow', 'free'));
});
afterAll(() => gateway.close());

const decide = async () => {
  const action = { agent_id: agentId, user_id: 'user-1', tool: 'free', resource: 'r:1', args: {} };
  const { body } = await gateway.post('/v1/actions/preflight', action);
  return body?.reason_code;
};

/**
 * Forges a row, sweeps, and restores the table. Returns the decision on the forged row and the
 * decision after the restore.
 */
async function swept(table: string, sql: string) {
  const { pool } = gateway.services;
  await pool.query(`create table kept as select * from ${table}`);
  await pool.query(sql);
  await sweepRows(gateway.services);
  const during = await decide();
  await pool.query(
    `delete from ${table}; insert into ${table} select * from kept; drop table kept`,
  );
  await sweepRows(gateway.services);
  return { during, after: await decide() };
}

const closed = { during: 'integrity.forged_row', after: 'test.allow' };

const onPool = (): Query => async (text, values) =>
  (await gateway.services.pool.query(text, [...values])).rows;

async function armed(): Promise<string> {
  const body = { kind: 'block_tool', tool: 'dangerous', reason: 'incident' } as const;
  return (await gateway.owner.call(armKillSwitch, { body })).id;
}

describe('all actions of a tenant are denied if a writer in the database', () => {
  it.each([
    [
      'disarmed a kill switch',
      (id: string) => `update kill_switch set disarmed_at = now() where id = '${id}'`,
    ],
    [
      'changed a kill switch to expired',
      (id: string) => `update kill_switch set expires_at = '2020-01-01' where id = '${id}'`,
    ],
    ['deleted a kill switch', (id: string) => `delete from kill_switch where id = '${id}'`],
  ])('%s', async (_what, sql) => {
    const id = await armed();
    expect(await swept('kill_switch', sql(id))).toEqual(closed);
    await until(
      async () =>
        (await incidentsOf(gateway.services, 'default', { table: 'kill_switch', id })).length === 1,
    );
    await gateway.owner.call(disarmKillSwitch, { params: { id } });
  });

  it.each([
    ['archived', (id: string) => `update policy set lifecycle = 'archived' where id = ${id}`],
    ['deleted', (id: string) => `delete from policy where id = ${id}`],
    [
      'changed to a draft',
      (id: string) => `update policy set lifecycle = 'draft' where id = ${id}`,
    ],
    [
      'deleted, and invalid outbox rows added',
      (id: string) => `delete from policy where id = ${id};
        insert into event_outbox (tenant_id, event_id, event, dead_lettered)
          values ('default', 'ev_not_${id}', 'binding.removed', true),
                 ('default', 'ev_none_${id}', '{"chain_id":"policy:${id}","type":""}', true)`,
    ],
  ])('tampered with a deny policy (%s)', async (_what, sql) => {
    await gateway.publish(rule('deny', 'dangerous'));
    const { id } = await gateway.services.db.policy.findFirstOrThrow({ orderBy: { id: 'desc' } });
    expect(await swept('policy', sql(String(id)))).toEqual(closed);
  });

  it('deleted a binding (without this check, its host would be treated as unbound)', async () => {
    const body = { protocol: 'passthrough', host: 'bound.example' } as const;
    await gateway.owner.call(putBinding, { params: { name: 'bound' }, body });
    expect(await swept('binding', `delete from binding where name = 'bound'`)).toEqual(closed);
    await gateway.owner.call(deleteBinding, { params: { name: 'bound' } });
    await sweepRows(gateway.services);
    expect(await decide()).toBe('test.allow');
  });
});

describe('all actions of a tenant are denied if a writer in the database deletes', () => {
  it('a user whose role a policy denies', async () => {
    await putUser(gateway.services, { tenantId: 'default', principal: 'owner' } as Caller, {
      id: 'denied-by-role',
      fields: { role: 'contractor' },
    });
    const sql = `delete from directory_user where id = 'denied-by-role'`;
    expect(await swept('directory_user', sql)).toEqual(closed);
  });

  it('a tool (without this check, the tool would be treated as unregistered)', async () => {
    const manifest = { name: 'registered', version: '1.0.0', description: 'A tool' };
    await gateway.owner.call(ingestTool, { body: { manifest } as never });
    expect(await swept('tool', `delete from tool where name = 'registered'`)).toEqual(closed);
  });

  it('the revocation of a passport (without this check, the passport would be valid again)', async () => {
    await gateway.owner.call(revokePassport, { body: { jti: 'pp_revoked', reason: 'stolen' } });
    const sql = `delete from passport_revocation where jti = 'pp_revoked'`;
    expect(await swept('passport_revocation', sql)).toEqual(closed);
  });
});

it('a published policy is rejected if its earlier draft row is restored unchanged', async () => {
  const { pool, db } = gateway.services;
  const rules_json = { id: 'once', version: 1, rules: [] };
  const made = await gateway.post('/v1/policies', { name: 'once', rules_json });
  const id = Number(made.body?.id);
  const { mac } = await db.policy.findUniqueOrThrow({ where: { id } });
  await gateway.owner.call(updatePolicy, { params: { id }, body: { lifecycle: 'published' } });
  const sql = `update policy set lifecycle = 'draft', mac = '${mac}' where id = ${id}`;
  expect(await swept('policy', sql)).toEqual(closed);
  expect((await pool.query('select from policy where id = $1', [id])).rowCount).toBe(1);
});

describe('a round of the sweep', () => {
  it('reads only the ledger events that were sealed since the previous round', async () => {
    const query = onPool();
    const known: KnownLedgers = new Map();
    const first = await activeVersions(query, known);
    expect(first.length).toBeGreaterThan(0);
    const before = known.get('default')?.position ?? 0;
    expect(await activeVersions(query, known)).toEqual(first);
    await armed();
    expect(await activeVersions(query, known)).toHaveLength(first.length + 1);
    expect(known.get('default')?.position).toBeGreaterThan(before);
  });

  it('reads few rows of a ledger of thousands of events', async () => {
    const { pool } = gateway.services;
    const known: KnownLedgers = new Map();
    await activeVersions(onPool(), known);
    const positions = [...known.values()].map(({ position }) => position);
    const types = ['kill_switch.armed', 'policy.published', 'binding.written', 'binding.removed'];
    const client = await pool.connect();
    const touchedAfter = async (from: readonly number[]) => {
      const { rows } = await client.query(
        `explain (analyze, costs off, timing off, format json) ${sinceStatement}`,
        [[...known.keys()], from, types, null],
      );
      return touchedRows(rows[0]['QUERY PLAN'][0].Plan);
    };
    try {
      await client.query('begin; set local session_replication_role = replica');
      await client.query(`insert into evidence_row
        select (jsonb_populate_record(null::evidence_row, to_jsonb(e) || jsonb_build_object(
          'position', 1000000 + n, 'chain_id', 'bulk', 'seq', n, 'event_id', 'bulk_' || n,
          'type', 'decision'))).*
        from (select * from evidence_row where tenant_id = 'default' limit 1) e,
             generate_series(1, 5000) n`);
      await client.query('analyze evidence_row');
      expect(await touchedAfter(positions)).toBe(0);
      expect(await touchedAfter(positions.map(() => 0))).toBeLessThan(100);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });
});

interface Plan {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** Counts the ledger rows that a query read according to its plan, including discarded rows. */
function touchedRows(plan: Plan): number {
  const below = (plan.Plans ?? []).reduce((sum, one) => sum + touchedRows(one), 0);
  if (plan['Relation Name'] !== 'evidence_row') return below;
  const looked = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  return below + looked * plan['Actual Loops'];
}

it('a kill switch that an administrator disarmed blocks nothing, whether or not the event is sealed yet', async () => {
  const id = await armed();
  await gateway.owner.call(disarmKillSwitch, { params: { id } });
  await sweepRows(gateway.services);
  expect(await decide()).toBe('test.allow');
});

describe('a section for sidecars contains only correctly signed rows:', () => {
  const build = (
    name: 'agents' | 'tools' | 'revocations' | 'policies' | 'kill_switches' | 'tenant',
  ) => {
    const { db, vault, guard, clock } = gateway.services;
    return db.$transaction(
      async (tx): Promise<object> =>
        builders[name]({ tx, tenantId: 'default', nowMs: clock.now(), vault, guard }),
    );
  };

  it('an agent with forged capabilities is omitted and treated as revoked', async () => {
    const { pool } = gateway.services;
    const id = await gateway.agent('raised', ['pay.*']);
    await pool.query(`update agent set capabilities = '{**}' where id = ${id}`);
    const { agents } = (await build('agents')) as { agents: readonly { id: string }[] };
    expect(agents.map((agent) => agent.id)).not.toContain(id);
    expect(await build('revocations')).toMatchObject({ agentIds: expect.arrayContaining([id]) });
    await pool.query(`update agent set capabilities = '{pay.*}' where id = ${id}`);
    const mended = (await build('agents')) as { agents: readonly { id: string }[] };
    expect(mended.agents.map((agent) => agent.id)).toContain(id);
  });

  it.each([
    [
      'tenant',
      `update tenant set mode = 'monitor' where id = 'default'`,
      `update tenant set mode = 'enforce' where id = 'default'`,
    ],
    [
      'policies',
      `update policy set version = version + 1`,
      `update policy set version = version - 1`,
    ],
  ] as const)('the section %s is not built from forged rows', async (section, sql, undo) => {
    const { pool } = gateway.services;
    await pool.query(sql);
    await expect(build(section)).rejects.toMatchObject({ code: 'integrity.forged_row' });
    await pool.query(undo);
    await build(section);
  });
});
