import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashApiKey } from '../../../control-plane/platform/access/key-directory.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { armKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { createEnrolmentToken } from '../../../shared/contract/sidecars.ts';
import { generateApiKey } from '../../../shared/crypto/api-key.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { type ForgeryStage, forge, startForgeryStage } from './forgery-stage.ts';

let stage: ForgeryStage;
beforeAll(async () => {
  stage = await startForgeryStage();
});
afterAll(() => stage.gateway.close());

const refused = '403 integrity.forged_row';

/** Expects that both requests are refused because of the forged row, and that the ledger records it once. */
async function expectRefused(forgery: Parameters<typeof forge>[1]): Promise<void> {
  const before = await forgery.ask();
  expect(before.join(' ')).not.toContain('integrity');
  const { answers, incidents } = await forge(stage, forgery);
  expect(answers).toEqual([refused, refused]);
  expect(incidents).toBe(1);
}

describe('a row has no effect on decisions if it was changed directly in the database:', () => {
  it.each([
    ['a looser mode of the tenant', `update tenant set mode = 'monitor' where id = 'default'`],
    ['a different name of the tenant', `update tenant set name = 'else' where id = 'default'`],
  ])('%s', async (_what, sql) => {
    await expectRefused({ table: 'tenant', id: 'default', sql, ask: stage.decide() });
  });

  it('a larger plan', async () => {
    const definition = { id: 'planned', version: 1, rules: [] };
    const ask = stage.post('/v1/policies', { name: 'planned', rules_json: definition });
    const sql = `update tenant set plan = 'team' where id = 'default'`;
    await expectRefused({ table: 'tenant', id: 'default', sql, ask });
  });

  it.each([
    ['wider capabilities', `update agent set capabilities = '{**,x}'`],
    ['a different goal', `update agent set goal = 'whatever the user says'`],
    ['no signature at all', `update agent set mac = null`],
  ])('an agent with %s', async (_what, change) => {
    const sql = `${change} where id = ${stage.agentId}`;
    await expectRefused({ table: 'agent', id: stage.agentId, sql, ask: stage.decide() });
  });

  it('an agent that was enabled again after an administrator disabled it', async () => {
    const id = await stage.gateway.agent('stopped');
    const body = { agent_id: Number(id), requested_tools: ['free'], user_id: 'user-1' };
    const ask = stage.post('/v1/agents/issue-passport', body);
    const { gateway } = stage;
    const key = await gateway.api.key();
    await gateway.api.send('PATCH', `/api/v1/agents/${id}`, { key, body: { disabled: true } });
    expect(await ask()).toEqual([403, 'agent.disabled']);
    const sql = `update agent set disabled_at = null where id = ${id}`;
    await expectRefused({ table: 'agent', id, sql, ask });
  });

  it('an agent that was moved from another tenant', async () => {
    const { services } = stage;
    const made = await services.db.agent.create({
      data: { tenantId: 'other', name: 'guest', capabilities: ['**'] },
    });
    const id = String(made.id);
    const ask = stage.decide('free', { agent_id: id });
    const sql = `update agent set tenant_id = 'default' where id = ${id}`;
    await expectRefused({ table: 'agent', id, sql, ask });
  });

  it('a higher role in the directory', async () => {
    const sql = `update directory_user set role = 'cfo' where id = 'user-1'`;
    await expectRefused({ table: 'directory_user', id: 'user-1', sql, ask: stage.decide() });
  });

  it('a policy that was never published', async () => {
    const rules_json = { id: 'sly', version: 1, rules: [] };
    const made = await stage.gateway.post('/v1/policies', { name: 'sly', rules_json });
    const id = String(made.body?.id);
    const sql = `update policy set lifecycle = 'published' where id = ${id}`;
    await expectRefused({ table: 'policy', id, sql, ask: stage.decide() });
  });

  it('a policy whose rules differ from the published rules', async () => {
    const sql = `update policy set policy_hash = 'sha256:${'1'.repeat(64)}' where id = 1`;
    await expectRefused({ table: 'policy', id: '1', sql, ask: stage.decide() });
  });

  it('an approved hash of a tool whose manifest was not approved', async () => {
    const sql = `update tool set approved_hash = manifest_hash, risk_tier = 'medium' where name = 'shaped'`;
    await expectRefused({ table: 'tool', id: 'shaped', sql, ask: stage.decide('shaped') });
  });

  it('a kill switch with an earlier expiry', async () => {
    const body = { kind: 'block_tool', tool: 'blocked', reason: 'incident' } as const;
    const { id } = await stage.gateway.owner.call(armKillSwitch, { body });
    const sql = `update kill_switch set tool = 'nothing' where id = '${id}'`;
    await expectRefused({ table: 'kill_switch', id, sql, ask: stage.decide() });
  });

  it.each([
    ['a higher role', `role = 'owner'`],
    ['a different principal', `principal = 'adam'`],
    ['no agent binding', `agent_id = null`],
    ['a different tenant', `tenant_id = 'other'`],
    ['a later expiry', `expires_at = null`],
  ])('an API key with %s', async (_what, change) => {
    const principal = `p${randomBytes(4).toString('hex')}`;
    const expiresAt = new Date(stage.services.clock.now() + 3_600_000);
    const agentId = Number(stage.agentId);
    const key = await stage.gateway.api.key({ role: 'developer', principal, agentId, expiresAt });
    const row = await stage.services.db.apiKey.findFirstOrThrow({ where: { principal } });
    const sql = `update api_key set ${change} where id = '${row.id}'`;
    const ask = stage.post('/v1/actions/preflight', {}, key);
    const { answers } = await forgeAnywhere({ table: 'api_key', id: row.id, sql, ask }, change);
    expect(answers).toEqual([refused, refused]);
  });

  it('an API key whose revocation was removed', async () => {
    const key = generateApiKey();
    const { vault } = stage.services;
    const id = 'key_undead';
    const ask = stage.post('/v1/actions/preflight', {}, key);
    const sql = `insert into api_key (id, tenant_id, name, hash, start, last4, role, scope, principal, created_by, mac)
      values ('${id}', 'default', 'x', '${hashApiKey(vault, key)}', 'apk_', 'xxxx', 'owner', 'tenant',
              'owner', 'x', '${'0'.repeat(64)}')`;
    await expectRefused({ table: 'api_key', id, sql, ask });
  });

  it('an enrolment token that was never created, or that has more uses', async () => {
    const body = { agent_id: stage.agentId, user_id: 'user-1' };
    const { token } = await stage.gateway.owner.call(createEnrolmentToken, { body });
    const row = await stage.services.db.enrolmentToken.findFirstOrThrow({
      orderBy: { expiresAt: 'desc' },
    });
    const enrolment = {
      token: 'set_unknown',
      version: '1',
      signing_jwk: { kty: 'OKP', crv: 'Ed25519', x: generateSigningKey().publicJwk.x },
      encryption_jwk: {
        kty: 'OKP',
        crv: 'X25519',
        x: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo',
      },
    };
    const ask = stage.post('/v1/sidecars/enrol', { ...enrolment, token });
    const sql = `update enrolment_token set user_id = 'ceo', uses_left = 99 where hash = '${row.hash}'`;
    const { answers } = await forge(stage, { table: 'enrolment_token', id: row.hash, sql, ask });
    expect(answers).toEqual([refused, refused]);
    expect((await ask())[0]).toBe(201);
    // The token has no uses left, and the attacker resets the number of its uses.
    const again = `update enrolment_token set uses_left = 1 where hash = '${row.hash}'`;
    const wound = await forge(stage, { table: 'enrolment_token', id: row.hash, sql: again, ask });
    expect(wound.answers).toEqual([refused, refused]);
  });

  it.each([
    ['was moved to a different agent', `agent_id = '999'`],
    ['was moved to a different user', `user_id = 'ceo'`],
    ['got a different encryption key for credentials', `encryption_jwk = '{"kty":"OKP"}'`],
    ['got a different environment', `environment = 'prod'`],
  ])('a sidecar that %s', async (_what, change) => {
    const sidecar = await enrolledSidecar(stage.gateway, stage.agentId);
    const ask = async () => {
      const { code } = await refusalOf(sidecar.controlPlane.credentials());
      return [403, code] as const;
    };
    const sql = `update sidecar set ${change} where id = '${sidecar.id}'`;
    const { answers, incidents } = await forge(stage, {
      table: 'sidecar',
      id: sidecar.id,
      sql,
      ask,
    });
    expect(answers).toEqual([refused, refused]);
    expect(incidents).toBe(1);
  });

  it('a signing key for passports that was inserted', async () => {
    const { services, agentId } = stage;
    const mine = generateSigningKey('EdDSA');
    const claims = buildClaims({
      issuer: 'sallyport',
      agentId,
      audience: 'gateway://agents',
      tenantId: 'default',
      userId: 'user-1',
      goal: '',
      allowedTools: ['**'],
      riskTier: 'low',
      policyId: 'p',
      policyHash: '',
      ttlSeconds: 300,
      nowMs: services.clock.now(),
    });
    const ask = stage.decide('free', { passport: signPassport(claims, mine) });
    const sql = `insert into signing_key (tenant_id, kid, purpose, alg, public_jwk, sealed, state)
      values ('default', '${mine.kid}', 'passport', 'EdDSA', '${JSON.stringify(mine.publicJwk)}', '', 'retired')`;
    const { answers } = await forge(stage, { table: 'signing_key', id: mine.kid, sql, ask });
    const unknown = '401 passport.signature_invalid';
    expect(answers).toEqual([unknown, unknown]);
  });

  it('a binding with a different host', async () => {
    const binding = {
      ...({
        protocol: 'http',
        host: 'api.example',
        method: 'POST',
        path: '/x',
        body: 'json',
      } as const),
      tool: 'free',
      upstream: { url: 'https://api.example/x', method: 'POST' },
    } as const;
    await stage.gateway.owner.call(putBinding, { params: { name: 'bound' }, body: binding });
    const key = await stage.gateway.api.key({ role: 'gateway', scope: 'gateway' });
    const ask = stage.post('/v1/actions/execute', { ...executed(), tool: 'free' }, key);
    const sql = `update binding set definition = jsonb_set(definition, '{upstream,url}', '"https://evil.example/x"')
      where name = 'bound'`;
    const { answers, incidents } = await forge(stage, { table: 'binding', id: 'bound', sql, ask });
    expect(answers).toEqual(['200 integrity.forged_row', '200 integrity.forged_row']);
    expect(incidents).toBe(1);
  });
});

describe('a row of an approval has no effect if it was changed directly in the database:', () => {
  const stored = (id: number) => stage.services.db.approval.findUniqueOrThrow({ where: { id } });

  it.each([
    [
      'approved with the proof of another approval',
      `status = 'approved', effective_digest = action_digest`,
    ],
    [
      'changed to a lower risk, which requires fewer deciders',
      `quorum = 1, risk_tier = 'low', min_role = 'approver', tool = 'x'`,
    ],
    ['attributed to a user who is not the requester', `user_id = 'nobody'`],
    ['shown to its deciders with a changed description', `summary = 'Nothing of interest.'`],
  ])('an approval that is %s', async (_what, change) => {
    const { id } = await stage.desk.request({ tool: 'two' });
    const ask = async () => {
      const { code } = await refusalOf(stage.desk.decide(id, { action: 'approve' }));
      return [403, code] as const;
    };
    const sql = `update approval set ${change} where id = ${id}`;
    const { answers, incidents } = await forge(stage, {
      table: 'approval',
      id: String(id),
      sql,
      ask,
    });
    expect(answers).toEqual([refused, refused]);
    expect(incidents).toBe(1);
  });

  it.each([
    ['marked as unused after it was used', `used_at = null, uses_spent = 0`],
    ['valid for longer than was granted', `grant_expires_at = now() + interval '1 year'`],
    [
      'changed to arguments that were not approved',
      `effective_digest = 'sha256:${'2'.repeat(64)}'`,
    ],
  ])('a grant that is %s', async (_what, change) => {
    const { desk, post } = stage;
    const { asked, id } = await desk.request();
    await desk.decide(id, { action: 'approve' });
    const passport = async () => desk.passport((await stored(id)).eventHash);
    const first = await stage.gateway.post('/v1/actions/preflight', {
      ...asked,
      passport: await passport(),
    });
    expect(first.body).toMatchObject({ decision: 'allow' });
    const ask = async () =>
      post('/v1/actions/preflight', { ...asked, passport: await passport() })();
    const sql = `update approval set ${change} where id = ${id}`;
    const { answers } = await forge(stage, { table: 'approval', id: String(id), sql, ask });
    expect(answers).toEqual(['200 approval.invalid', '200 approval.invalid']);
  });

  const digest = 'effective_digest":"sha256:';
  it.each([
    ['other arguments', `${digest}[0-9a-f]{8}`, `${digest}00000000`],
    ['another tool', '"tool":"[^"]*"', '"tool":"else"'],
    ['another user', '"user_id":"[^"]*"', '"user_id":"ceo"'],
    ['another agent', '"agent_id":"[^"]*"', '"agent_id":"999"'],
  ])('a decision for %s, even if its ledger row was forged too', async (_what, from, to) => {
    const { desk, services, post } = stage;
    const { asked, id } = await desk.request();
    await desk.decide(id, { action: 'approve' });
    const { eventHash } = await stored(id);
    const passport = await desk.passport(eventHash);
    const ask = post('/v1/actions/preflight', { ...asked, passport });
    await services.pool.query(
      `create table kept_rows as select * from evidence_row where event_hash = '${eventHash}'`,
    );
    await services.pool.query(`begin; set local session_replication_role = replica;
      update evidence_row set canonical = regexp_replace(canonical, '${from}', '${to}')
      where event_hash = '${eventHash}'; commit`);
    expect(await ask()).toEqual([200, 'approval.invalid']);
    await services.pool.query(`begin; set local session_replication_role = replica;
      update evidence_row e set canonical = k.canonical from kept_rows k where e.event_hash = k.event_hash; commit`);
    await services.pool.query('drop table kept_rows');
  });

  it('a vote of a person who did not vote', async () => {
    const { desk } = stage;
    const { id } = await desk.request({ tool: 'two' });
    const sql = `insert into approval_vote (id, tenant_id, approval_id, principal, role, action, source, event_id)
      values ('av_forged', 'default', ${id}, 'ben', 'approver', 'approve', 'api', 'ev_none')`;
    const ask = async () => {
      const { code } = await refusalOf(desk.decide(id, { action: 'approve' }));
      return [403, code] as const;
    };
    const { answers } = await forge(stage, { table: 'approval_vote', id: 'av_forged', sql, ask });
    expect(answers).toEqual([refused, refused]);
  });

  it('a vote that was changed from deny to approve, or given different terms', async () => {
    const { desk } = stage;
    const { id } = await desk.request({ tool: 'two' });
    await desk.decide(id, { action: 'approve' }, desk.ben);
    const vote = await stage.services.db.approvalVote.findFirstOrThrow({
      where: { approvalId: id },
    });
    const sql = `update approval_vote set principal = 'zoe' where id = '${vote.id}'`;
    const ask = async () => {
      const { code } = await refusalOf(desk.decide(id, { action: 'approve' }));
      return [403, code] as const;
    };
    const { answers } = await forge(stage, { table: 'approval_vote', id: vote.id, sql, ask });
    expect(answers).toEqual([refused, refused]);
  });
});

function executed() {
  return {
    agent_id: stage.agentId,
    user_id: 'user-1',
    resource: '/x',
    args: {},
    idempotency_key: randomBytes(6).toString('hex'),
  };
}

/** Forges a row; if the forged row names another tenant, the incident is expected in that tenant's ledger. */
async function forgeAnywhere(forgery: Parameters<typeof forge>[1], change: string) {
  return forge(stage, forgery, change.startsWith('tenant_id') ? 'other' : 'default');
}
