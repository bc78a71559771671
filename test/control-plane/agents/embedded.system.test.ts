import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';

// Embedded mode has one database connection. Code that waits for a second connection inside a transaction
// hangs in this test.
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ databaseUrl: 'embedded' });
});
afterAll(() => gateway.close());

it('an agent is registered, used and disabled on the single connection of embedded mode', async () => {
  const agent_id = Number(await gateway.agent('embedded', ['pay']));
  await gateway.publish(rule('allow', 'pay'));
  const account = { agent_id, name: 'ci' };
  const minted = await gateway.post('/v1/agents/service-accounts', account);
  const key = String(minted.body?.key);
  const issue = { agent_id, requested_tools: ['pay'] };
  const issued = await gateway.post('/v1/agents/issue-passport', issue, key);
  const renewals = await Promise.all(
    Array.from({ length: 20 }, () =>
      gateway.post('/v1/agents/renew', { agent_id, passport: issued.body?.token }, key),
    ),
  );
  const [renewed, ...more] = renewals.filter(({ status }) => status === 201);
  expect(more).toEqual([]);
  const passport = renewed?.body?.token;
  const report = await gateway.post('/v1/agents/validate', { agent_id, passport }, key);
  expect(report.body).toMatchObject({ valid: true });
  const owner = await gateway.api.key();
  const path = `/api/v1/agents/${agent_id}`;
  for (const [disabled, reason] of [
    [true, 'agent.disabled'],
    [false, 'passport.revoked'],
  ] as const) {
    await gateway.api.send('PATCH', path, { key: owner, body: { disabled } });
    const action = {
      tool: 'pay',
      resource: 'r',
      agent_id: String(agent_id),
      user_id: 'u',
      passport,
    };
    const decided = await gateway.post('/v1/actions/preflight', action, key);
    expect(decided.body).toMatchObject({ decision: 'deny', reason_code: reason });
  }
  const detail = await gateway.api.send('GET', path, { key: owner });
  expect(detail.body).toMatchObject({ status: 'active', service_accounts: [{ name: 'ci' }] });
});
