import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { signOldRows } from '../../../control-plane/integrity/baseline.ts';
import { openServices } from '../../../control-plane/main.ts';
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { createTenant } from '../../../control-plane/tenants/create-tenant.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { eventsOf, testConfig } from '../../support/control-plane/services.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';

let gateway: Gateway;
let open: Gateway | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
});

const tables = [
  'tenant',
  'api_key',
  'directory_user',
  'agent',
  'service_account',
  'policy',
  'tool',
  'approval',
  'approval_vote',
  'passport',
  'kill_switch',
  'sidecar',
  'enrolment_token',
  'signing_key',
];

/** Prepares the database of an earlier version, whose rows have no signatures. */
async function oldInstallation(): Promise<string> {
  gateway = await startGateway();
  open = gateway;
  const agentId = await gateway.agent();
  await gateway.publish(rule('allow', 'free'));
  // Creates all keys before the signatures are removed, because a concurrent seal would create signed rows.
  for (const purpose of ['passport', 'sync', 'checkpoint'] as const) {
    await gateway.services.signingKeys.active('default', purpose);
  }
  await unsign();
  gateway.services.clock.advance(1_100);
  return agentId;
}

async function unsign(): Promise<void> {
  const { pool } = gateway.services;
  for (const table of tables) await pool.query(`update ${table} set mac = null`);
}

const decide = async (agentId: string) => {
  const action = { agent_id: agentId, user_id: 'user-1', tool: 'free', resource: 'r:1', args: {} };
  return (await gateway.post('/v1/actions/preflight', action)).body?.reason_code;
};

const signings = async () =>
  (await eventsOf(gateway.services, 'default')).filter(
    ({ type }) => type === 'integrity.rows_signed',
  );

it('a new installation does not sign existing rows at its next start, even if the signing marker and the ledger were deleted', async () => {
  const database = await freshDatabase();
  const key = { SALLYPORT_MASTER_KEY: randomBytes(32).toString('base64') };
  const config = testConfig({ DATABASE_URL: database.url, ...key });
  const first = await openServices(config, silentLog);
  const { tenantId } = await createTenant(first.services, 'acme');
  await first.close();
  const forge = await openStore({ databaseUrl: database.url, dataDir: '', log: silentLog });
  for (const table of tables) await forge.pool.query(`update ${table} set mac = null`);
  await forge.pool.query('delete from integrity_baseline');
  await forge.pool.query(`begin; set local session_replication_role = replica;
    delete from evidence_row; delete from evidence_head; delete from event_outbox; commit`);
  await forge.db.agent.create({ data: { tenantId, name: 'sly', capabilities: ['**'] } });
  await forge.close();
  const second = await openServices(config, silentLog);
  const agent = await second.services.db.agent.findFirstOrThrow({ where: { name: 'sly' } });
  expect(agent.mac).toBeNull();
  await second.close();
  await database.drop();
});

describe('the unsigned rows of an older version', () => {
  it('are signed at the first start only, and each tenant’s ledger records the signing', async () => {
    const agentId = await oldInstallation();
    await signOldRows(gateway.services);
    expect(await decide(agentId)).toBe('test.allow');
    expect(await signings()).toMatchObject([
      { data: { rows: { agent: 1, policy: 1, tenant: 1 } } },
    ]);
    await gateway.services.pool.query(`update agent set capabilities = '{**,more}', mac = null`);
    await signOldRows(gateway.services);
    expect(await decide(agentId)).toBe('integrity.forged_row');
    await gateway.services.pool.query(`update agent set capabilities = '{**}'`);
    expect(await signings()).toHaveLength(1);
  });

  it('are not signed again if the marker and all signatures were removed', async () => {
    const agentId = await oldInstallation();
    await signOldRows(gateway.services);
    expect(await decide(agentId)).toBe('test.allow');
    const kept = await gateway.services.db.$queryRaw<{ kid: string; mac: string }[]>`
      select kid, mac from signing_key`;
    await gateway.services.pool.query('delete from integrity_baseline');
    await unsign();
    gateway.services.clock.advance(1_100);
    await signOldRows(gateway.services);
    expect((await gateway.services.db.agent.findMany()).every(({ mac }) => mac === null)).toBe(
      true,
    );
    expect((await gateway.post('/v1/actions/preflight', {})).body?.reason_code).toBe(
      'integrity.forged_row',
    );
    for (const { kid, mac } of kept) {
      await gateway.services.pool.query('update signing_key set mac = $1 where kid = $2', [
        mac,
        kid,
      ]);
    }
  });

  it('are signed once if several control planes start at the same time', async () => {
    await oldInstallation();
    await Promise.all([1, 2, 3, 4].map(() => signOldRows(gateway.services)));
    expect(await signings()).toHaveLength(1);
  });
});
