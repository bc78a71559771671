import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signOldOutbox } from '../../../control-plane/integrity/outbox-baseline.ts';
import { sweepRows } from '../../../control-plane/integrity/sweep.ts';
import { newId } from '../../../shared/base/ids.ts';
import { deleteBinding, putBinding } from '../../../shared/contract/bindings.ts';
import { armKillSwitch, disarmKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { until } from '../../support/base/until.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent();
  await gateway.publish(rule('allow', 'free'));
});
afterAll(() => gateway.close());

const decide = async (more: object = {}) => {
  const action = { agent_id: agentId, user_id: 'user-1', tool: 'free', resource: 'r:1', args: {} };
  const { body } = await gateway.post('/v1/actions/preflight', { ...action, ...more });
  return body?.reason_code;
};
const put = (name: string) =>
  gateway.owner.call(putBinding, {
    params: { name },
    body: { protocol: 'passthrough', host: `${name}.example` },
  });
const remove = (name: string) => gateway.owner.call(deleteBinding, { params: { name } });

/** Runs SQL as the owner of the database, sweeps, decides, restores the tables, and decides again. */
async function swept(tables: readonly string[], ...statements: readonly string[]) {
  const { pool } = gateway.services;
  for (const table of tables) await pool.query(`create table kept_${table} as table ${table}`);
  for (const sql of statements) await pool.query(sql);
  await sweepRows(gateway.services);
  const during = await decide();
  for (const table of tables) {
    await pool.query(`delete from ${table}; insert into ${table} table kept_${table};
      drop table kept_${table}`);
  }
  await sweepRows(gateway.services);
  return { during, after: await decide() };
}
const closed = { during: 'integrity.forged_row', after: 'test.allow' };

/** Returns SQL that inserts an outbox row as an attacker could: a complete event without its MAC. */
function forgedRemoval(name: string, id: string = newId('ev', Date.now())): string {
  const event = {
    id,
    type: 'binding.removed',
    chain_id: `bindings:${name}`,
    source: 'control-plane',
    occurred_at: new Date().toISOString(),
    data: { by: 'owner' },
  };
  return `insert into event_outbox (tenant_id, event_id, event, dead_lettered)
    values ('default', '${event.id}', '${JSON.stringify(event)}', true)`;
}

describe('the deletion of a binding directly in the database', () => {
  it('causes the denial of all actions of the tenant, even if an outbox row that records a removal is forged', async () => {
    await put('forged');
    const sql = [forgedRemoval('forged'), `delete from binding where name = 'forged'`];
    expect(await swept(['binding'], ...sql)).toEqual(closed);
    await until(async () =>
      (await eventsOf(gateway.services, 'default')).some(
        ({ type, data }) => type === 'integrity.forged_row' && data.table === 'event_outbox',
      ),
    );
    const events = await gateway.services.db.evidenceRow.findMany({
      where: { tenantId: 'default', chainId: 'bindings:forged' },
    });
    expect(events.map(({ type }) => type)).toEqual(['binding.written']);
    await remove('forged');
  });

  it('causes the denial of all actions of the tenant, even if a tombstone for the binding is forged', async () => {
    await put('buried');
    const insert = `insert into binding_removal (tenant_id, name, event_id, removed_at, mac)
      values ('default', 'buried', 'ev_x', now(), repeat('a', 64))`;
    const sql = [insert, `delete from binding where name = 'buried'`];
    expect(await swept(['binding', 'binding_removal'], ...sql)).toEqual(closed);
    await remove('buried');
  });

  it('causes the denial of all actions of the tenant, even if the tombstone of an earlier removal is restored', async () => {
    const { pool } = gateway.services;
    await put('again');
    await remove('again');
    await pool.query('create table earlier as table binding_removal');
    await put('again');
    const sql = [
      `delete from binding where name = 'again'`,
      `insert into binding_removal select * from earlier where name = 'again'`,
    ];
    expect(await swept(['binding', 'binding_removal'], ...sql)).toEqual(closed);
    await pool.query('drop table earlier');
  });

  it('causes the denial of all actions of the tenant, even if an earlier tombstone is restored and a removal event is forged', async () => {
    const { pool } = gateway.services;
    await put('anew');
    await remove('anew');
    const { rows } = await pool.query(
      `select event_id, removed_at, mac from binding_removal where name = 'anew'`,
    );
    const [earlier] = rows;
    await put('anew');
    const insert = `insert into binding_removal (tenant_id, name, event_id, removed_at, mac)
      values ('default', 'anew', '${earlier.event_id}', '${earlier.removed_at.toISOString()}', '${earlier.mac}')`;
    const sql = [
      `delete from binding where name = 'anew'`,
      `delete from binding_removal where name = 'anew'`,
      insert,
      forgedRemoval('anew', earlier.event_id),
    ];
    expect(await swept(['binding', 'binding_removal'], ...sql)).toEqual(closed);
    await remove('anew');
  });

  it('causes the denial of all actions of the tenant, even if an earlier tombstone and its event’s outbox row are restored unchanged', async () => {
    const { pool } = gateway.services;
    await pool.query(`create table seen as table event_outbox;
      create function see() returns trigger language plpgsql as
        'begin insert into seen select new.*; return new; end';
      create trigger see before insert on event_outbox for each row execute function see()`);
    await put('replayed');
    await remove('replayed');
    await pool.query(`create table earlier as table binding_removal`);
    await put('replayed');
    const sql = [
      'drop trigger see on event_outbox; drop function see',
      `delete from binding where name = 'replayed'`,
      `delete from binding_removal where name = 'replayed'`,
      `insert into binding_removal select * from earlier where name = 'replayed'`,
      `insert into event_outbox select seen.* from seen join earlier using (tenant_id, event_id)
        where earlier.name = 'replayed'`,
    ];
    expect(await swept(['binding', 'binding_removal'], ...sql)).toEqual(closed);
    await pool.query('drop table seen; drop table earlier');
    await remove('replayed');
  });

  it('is never published to sidecars, even if the attacker raises the version of the bindings section', async () => {
    const { pool, publisher, bus } = gateway.services;
    await put('published');
    publisher.nudge();
    const onBus = () => bus.read('default', 'bindings');
    await until(async () => (await onBus()) !== undefined);
    const settled = async () => {
      const { rows } = await pool.query(
        `select 1 from sync_section where name = 'bindings' and published_version < version`,
      );
      return rows.length === 0;
    };
    await until(settled);
    const before = await onBus();
    await pool.query('create table kept as table binding');
    await pool.query(`delete from binding where name = 'published'`);
    await pool.query(`update sync_section set version = version + 1 where name = 'bindings'`);
    const incidents = async () =>
      (await eventsOf(gateway.services, 'default')).filter(
        ({ type, data }) => type === 'integrity.forged_row' && data.row_id === 'published',
      ).length;
    publisher.nudge();
    await until(async () => (await incidents()) > 0);
    expect(await onBus()).toBe(before);
    await pool.query('delete from binding; insert into binding table kept; drop table kept');
    publisher.nudge();
    await until(settled);
    await remove('published');
  });
});

it('a removed binding leaves a tombstone, and all actions of the tenant are denied if the tombstone is deleted', async () => {
  await put('left');
  await remove('left');
  await sweepRows(gateway.services);
  expect(await decide()).toBe('test.allow');
  const sql = `delete from binding_removal where name = 'left'`;
  expect(await swept(['binding_removal'], sql)).toEqual(closed);
});

describe('a kill switch that is deactivated directly in the database', () => {
  const arm = async () => {
    const body = { kind: 'block_tool', tool: 'free', reason: 'incident' } as const;
    return (await gateway.owner.call(armKillSwitch, { body })).id;
  };
  it.each([
    ['disarmed', (id: string) => `update kill_switch set disarmed_at = now() where id = '${id}'`],
    ['expired', (id: string) => `update kill_switch set expires_at = now() where id = '${id}'`],
    ['moved', (id: string) => `update kill_switch set agent_id = '0' where id = '${id}'`],
    ['deleted', (id: string) => `delete from kill_switch where id = '${id}'`],
  ])(
    'causes the next decision to be denied, without waiting for a sweep, if it was %s',
    async (_what, sql) => {
      const { pool } = gateway.services;
      for (const isKnown of [false, true]) {
        const id = await arm();
        // Either the process knows the switch from a sweep, or it reads the switch from the ledger.
        if (isKnown) await sweepRows(gateway.services);
        expect(await decide()).toBe('runtime.kill_switch');
        await pool.query('create table kept as table kill_switch');
        await pool.query(sql(id));
        expect(await decide()).toBe('integrity.forged_row');
        await pool.query('delete from kill_switch; insert into kill_switch table kept');
        await pool.query('drop table kept');
        await gateway.owner.call(disarmKillSwitch, { params: { id } });
        expect(await decide()).toBe('test.allow');
      }
    },
  );
});

describe('the outbox and the binding tombstones of an older version', () => {
  it('are signed at the first start only, and each ledger records the signing', async () => {
    const { pool, db } = gateway.services;
    const signings = async () =>
      (await eventsOf(gateway.services, 'default')).filter(
        ({ type }) => type === 'integrity.outbox_signed',
      );
    await put('old');
    await remove('old');
    await pool.query('delete from binding_removal');
    await signOldOutbox(gateway.services);
    await sweepRows(gateway.services);
    expect(await decide()).toBe('test.allow');
    expect(await signings()).toMatchObject([{ data: { rows: { event_outbox: 0 } } }]);
    // The rows are not signed again even if the marker is missing, because the ledger records that
    // they were signed.
    await pool.query('delete from integrity_baseline');
    await pool.query('delete from binding_removal');
    await signOldOutbox(gateway.services);
    expect(await db.bindingRemoval.count()).toBe(0);
    expect(await signings()).toHaveLength(1);
  });
});
