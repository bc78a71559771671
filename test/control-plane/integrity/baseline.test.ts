import { afterEach, describe, expect, it } from 'vitest';
import { signOldRows } from '../../../control-plane/integrity/baseline.ts';
import { type Gateway, rule, startGateway } from '../../support/gateway.ts';
import { eventsOf } from '../../support/services.ts';

let gateway: Gateway;
afterEach(() => gateway.close());

const tables = [
  ...['tenant', 'api_key', 'directory_user', 'agent', 'service_account', 'policy', 'tool'],
  ...['approval', 'approval_vote', 'kill_switch', 'sidecar', 'enrolment_token', 'signing_key'],
];

/** A database as the version before left it: rows without signatures. */
async function oldInstallation(): Promise<string> {
  gateway = await startGateway();
  const agentId = await gateway.agent();
  await gateway.publish(rule('allow', 'free'));
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

describe('the rows of before', () => {
  it('are signed at the first start, which the ledger says of every tenant, and by no later one', async () => {
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

  it('are not signed again where somebody removed the marker, and every signature with it', async () => {
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

  it('are signed once, however many control planes start at once', async () => {
    await oldInstallation();
    await Promise.all([1, 2, 3, 4].map(() => signOldRows(gateway.services)));
    expect(await signings()).toHaveLength(1);
  });
});
