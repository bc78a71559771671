import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import { userRoutes } from '../../../control-plane/users/routes.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { armKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { until } from '../../support/base/until.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type ForgeryStage, incidentsOf, startForgeryStage } from './forgery-stage.ts';

let stage: ForgeryStage;
let ownerKey: string;
/** Serves the routes that the stage's gateway omits. */
let ownApi: TestApi;
beforeAll(async () => {
  stage = await startForgeryStage();
  ownerKey = await stage.gateway.api.key();
  const { services } = stage;
  ownApi = await startApi([...keyRoutes(services), ...userRoutes(services)], services);
  const { owner } = stage.gateway;
  const body = { protocol: 'passthrough', host: 'shown.example' } as const;
  await owner.call(putBinding, { params: { name: 'shown' }, body });
  await owner.call(armKillSwitch, {
    body: { kind: 'block_tool', tool: 'other', reason: 'incident' },
  });
  await enrolledSidecar(stage.gateway, stage.agentId);
  await stage.desk.request();
});
afterAll(async () => {
  await ownApi.close();
  await stage.gateway.close();
});

const get = (path: string) => {
  const api = /^\/v1\/(keys|users)/.test(path) ? ownApi : stage.gateway.api;
  return api.send('GET', `/api${path}`, { key: ownerKey });
};

interface Shown {
  readonly table: string;
  readonly change: string;
  readonly id: string;
  readonly list?: readonly [path: string, member: string];
  readonly one?: string;
}

/** For each table whose rows are displayed: a forged change, and where the row is displayed. */
const shown: readonly Shown[] = [
  {
    table: 'agent',
    change: `name = 'else'`,
    id: 'id',
    list: ['/v1/agents', 'agents'],
    one: '/v1/agents/',
  },
  { table: 'api_key', change: 'revoked_at = now()', id: 'id', list: ['/v1/keys', 'keys'] },
  {
    table: 'approval',
    change: `status = 'approved'`,
    id: 'id',
    list: ['/v1/approvals', 'approvals'],
    one: '/v1/approvals/',
  },
  {
    table: 'binding',
    change: `definition = definition || '{"host":"else.example"}'`,
    id: 'name',
    list: ['/v1/runtime/bindings', 'bindings'],
  },
  { table: 'directory_user', change: `role = 'cfo'`, id: 'id', one: '/v1/users/' },
  {
    table: 'kill_switch',
    change: `disarmed_at = now()`,
    id: 'id',
    list: ['/v1/runtime/kill-switches?status=all', 'kill_switches'],
  },
  {
    table: 'policy',
    change: `lifecycle = 'draft'`,
    id: 'id',
    list: ['/v1/policies', 'policies'],
    one: '/v1/policies/',
  },
  { table: 'sidecar', change: `environment = 'dev'`, id: 'id', list: ['/v1/sidecars', 'sidecars'] },
  {
    table: 'tool',
    change: `risk_tier = 'critical'`,
    id: 'name',
    list: ['/v1/tools', 'tools'],
    one: '/v1/tools/',
  },
];

describe('a row that was forged in the database is absent from every list and every single read:', () => {
  it.each(shown)('$table', async ({ table, change, id: column, list, one }) => {
    const { pool } = stage.gateway.services;
    // The caller's own key must remain valid, so only keys of approvers are forged.
    const others = table === 'api_key' ? `and role = 'approver'` : '';
    const { rows } = await pool.query<{ id: string }>(
      `select ${column}::text as id from ${table} where tenant_id = 'default' ${others}
        order by ${column} desc limit 1`,
    );
    const id = rows[0]?.id ?? '';
    const listed = async () => {
      if (list === undefined) return undefined;
      const { status, body } = await get(list[0]);
      expect(status).toBe(200);
      const records = (body as Record<string, Record<string, unknown>[]>)[list[1]] ?? [];
      const keyOf = ({ agent_id, sidecar_id, id: own, name }: Record<string, unknown>) =>
        [agent_id, sidecar_id, own, name].map(String);
      return records.some((record) => keyOf(record).includes(id));
    };
    const read = async () => (one === undefined ? undefined : (await get(`${one}${id}`)).status);
    expect(await listed()).toBe(list === undefined ? undefined : true);
    expect(await read()).toBe(one === undefined ? undefined : 200);
    await pool.query(`create table shown as table ${table}`);
    await pool.query(`update ${table} set ${change} where ${column}::text = '${id}'`);
    expect(await listed()).toBe(list === undefined ? undefined : false);
    expect(await read()).toBe(one === undefined ? undefined : 403);
    await until(
      async () => (await incidentsOf(stage.services, 'default', { table, id })).length === 1,
    );
    await pool.query(`begin; set local session_replication_role = replica;
      delete from ${table}; insert into ${table} table shown; drop table shown; commit`);
  });

  it('the settings of the tenant', async () => {
    const { pool } = stage.gateway.services;
    await pool.query(`update tenant set mode = 'monitor' where id = 'default'`);
    expect((await get('/v1/tenant/settings')).status).toBe(403);
    await pool.query(`update tenant set mode = 'enforce' where id = 'default'`);
  });
});
