import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { issueAgentPassport } from '../../../shared/contract/agents.ts';
import { issuePassport, revokePassport } from '../../../shared/contract/passports.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { type Gateway, refusalOf, rule, startGateway } from '../../support/gateway.ts';

let gateway: Gateway;
let agentId: string;
let policyHash: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent();
  policyHash = await gateway.publish(
    rule('allow', 'pay'),
    rule('deny', 'shell'),
    rule('require_approval', 'refund'),
    rule('warn', 'mail'),
  );
});
afterAll(() => gateway.close());

function action(more: object = {}) {
  return {
    tool: 'pay',
    resource: 'invoice:7',
    args: { amount: 5 },
    agent_id: agentId,
    user_id: 'user-1',
    ...more,
  };
}

const ask = (more: object = {}, client = gateway.owner) =>
  client.call(preflight, { body: action(more) });

async function passportFor(more: object = {}) {
  const { passport, jti } = await gateway.owner.call(issuePassport, {
    body: {
      tenant_id: 'default',
      agent_id: agentId,
      user_id: 'user-1',
      goal: 'Work',
      allowed_tools: ['**'],
      risk_tier: 'low',
      policy_id: 'p1',
      audience: 'gateway://agents',
      ttl_seconds: 300,
      ...more,
    },
  });
  return { passport, jti };
}

async function sealed(eventId: string, tenantId = 'default') {
  const where = { tenantId_eventId: { tenantId, eventId } };
  const row = await gateway.services.db.evidenceRow.findUniqueOrThrow({ where });
  return { row, event: JSON.parse(row.canonical) as { data: Record<string, unknown> } };
}

describe('a decision', () => {
  it('answers what policy says, with everything that links it to its evidence', async () => {
    const answer = await ask();
    expect(answer).toMatchObject({
      decision: 'allow',
      reason_code: 'test.allow',
      matched_rules: ['p1/allow pay'],
      chain_id: `agent:${agentId}`,
      policy_hash: policyHash,
      mode: 'enforce',
      enforced: true,
    });
    const { row, event } = await sealed(answer.evidence_event_id);
    expect(row).toMatchObject({
      type: 'decision',
      chainId: answer.chain_id,
      decision: 'allow',
      reasonCode: 'test.allow',
      tool: 'pay',
    });
    expect(event.data).toMatchObject({ policy_hash: policyHash, point: 'preflight' });
  });

  it('answers policy outcomes with 200, refusals too', async () => {
    for (const [tool, decision] of [
      ['shell', 'deny'],
      ['mail', 'warn'],
      ['refund', 'require_approval'],
      ['unheard-of', 'deny'],
    ]) {
      const answer = await gateway.post('/v1/actions/preflight', action({ tool }));
      expect(answer).toMatchObject({ status: 200, body: { decision } });
    }
  });

  it('is the same under its other name', async () => {
    const answer = await gateway.post('/v1/actions/decision', action());
    expect(answer).toMatchObject({ status: 200, body: { decision: 'allow' } });
  });

  it('keeps no argument in the ledger, but their shape and a digest that cannot be guessed', async () => {
    const args = { iban: 'DE02120300000000202051', nested: { list: [1, 2] } };
    const one = await sealed((await ask({ args })).evidence_event_id);
    const two = await sealed((await ask({ args })).evidence_event_id);
    expect(one.row.canonical).not.toContain('DE0212');
    expect(one.event.data.args_shape).toEqual({ iban: 'string', nested: { list: ['number'] } });
    expect(one.event.data.args_digest).not.toBe(two.event.data.args_digest);
    const salts = await gateway.services.db.evidenceSalt.findMany({
      where: { eventId: { in: [one.row.eventId, two.row.eventId] } },
    });
    expect(salts).toHaveLength(2);
  });

  it.each([
    ['without a tool', { tool: undefined }],
    ['with an empty tool', { tool: '' }],
    ['with a tool that no index could hold', { tool: 't'.repeat(5000) }],
    ['with arguments that are no object', { args: [1] }],
    ['with an unknown mode', { mode: 'off' }],
    ['with an agent that is no text', { agent_id: 7 }],
  ])('is refused as malformed %s', async (_what, more) => {
    const answer = await gateway.post('/v1/actions/preflight', action(more));
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });

  it('follows a policy from the moment it is published, and not after it is archived', async () => {
    expect((await ask({ tool: 'later' })).reason_code).toBe('policy.no_match');
    await gateway.publish(rule('allow', 'later'));
    expect((await ask({ tool: 'later' })).decision).toBe('allow');
    const { db } = gateway.services;
    await db.policy.updateMany({ where: { name: 'policy 2' }, data: { lifecycle: 'archived' } });
    expect((await ask({ tool: 'later' })).reason_code).toBe('policy.no_match');
  });

  it('knows nothing of another tenant', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const answer = await ask({}, stranger);
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'policy.no_match' });
    const { row } = await sealed(answer.evidence_event_id, 'other');
    expect(row.tenantId).toBe('other');
  });

  it('is given to a key of an agent for that agent only', async () => {
    const bound = await gateway.as({ role: 'agent', agentId: Number(agentId), principal: 'bot' });
    expect((await ask({}, bound)).decision).toBe('allow');
    const error = await refusalOf(ask({ agent_id: '999' }, bound));
    expect(error.code).toBe('agent.mismatch');
  });
});

describe('modes', () => {
  it('report without enforcing below enforce', async () => {
    expect(await ask({ tool: 'shell', mode: 'monitor' })).toMatchObject({
      decision: 'deny',
      enforced: false,
    });
    expect(await ask({ tool: 'shell', mode: 'warn' })).toMatchObject({
      decision: 'warn',
      reason_code: 'test.deny',
      enforced: false,
    });
  });

  it('want a passport in strict, and an agent that is registered', async () => {
    const answer = await gateway.post('/v1/actions/preflight', action({ mode: 'strict' }));
    expect(answer).toMatchObject({
      status: 401,
      body: { reason_code: 'passport.missing', decision: 'deny' },
    });
    const unknown = await ask({ mode: 'strict', agent_id: 'nobody' });
    expect(unknown).toMatchObject({ decision: 'deny', reason_code: 'agent.not_found' });
  });

  it('open no approval for what is not held back', async () => {
    const answer = await ask({ tool: 'refund', mode: 'monitor', resource: 'only-watched' });
    expect(answer.decision).toBe('require_approval');
    expect(answer.approval_request_id).toBeUndefined();
  });
});

describe('kill switches', () => {
  it.each(['monitor', 'enforce'])('block in mode %s', async (mode) => {
    const { db } = gateway.services;
    const armed = await db.killSwitch.create({
      data: {
        id: `ks-${mode}`,
        tenantId: 'default',
        kind: 'block_tool',
        tool: 'pay',
        reason: 'incident',
        armedBy: 'owner',
      },
    });
    expect(await ask({ mode })).toMatchObject({
      decision: 'deny',
      reason_code: 'runtime.kill_switch',
      enforced: true,
    });
    await db.killSwitch.update({ where: { id: armed.id }, data: { disarmedAt: new Date() } });
    expect((await ask()).decision).toBe('allow');
  });
});

describe('a passport', () => {
  it('is used up by one decision: the second is refused with 403', async () => {
    const { passport } = await passportFor();
    expect((await ask({ passport })).decision).toBe('allow');
    const again = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(again).toMatchObject({
      status: 403,
      body: { reason_code: 'passport.replay_detected', decision: 'deny' },
    });
    const { event } = await sealed(String(again.body?.evidence_event_id));
    expect(event).toMatchObject({ decision: 'deny', reason_code: 'passport.replay_detected' });
  });

  it.each(['low', 'critical'])(
    'of %s risk lets exactly one of many at once through',
    async (risk_tier) => {
      const { passport } = await passportFor({ risk_tier });
      const answers = await Promise.all(
        Array.from({ length: 12 }, () =>
          gateway.post('/v1/actions/preflight', action({ passport })),
        ),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(11).fill(403)]);
    },
  );

  it('of critical risk stays used when the bus forgot', async () => {
    const { passport, jti } = await passportFor({ risk_tier: 'critical' });
    await gateway.services.db.passportUse.create({
      data: { tenantId: 'default', jti, expiresAt: new Date(gateway.services.clock.now() + 1e6) },
    });
    const answer = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(answer).toMatchObject({
      status: 403,
      body: { reason_code: 'passport.replay_detected' },
    });
  });

  it('is refused when revoked, and is spent by a refusal of policy too', async () => {
    const { passport, jti } = await passportFor();
    await gateway.owner.call(revokePassport, { body: { jti } });
    const revoked = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(revoked).toMatchObject({ status: 403, body: { reason_code: 'passport.revoked' } });
    const other = await passportFor();
    expect((await ask({ tool: 'shell', passport: other.passport })).decision).toBe('deny');
    const again = await gateway.post('/v1/actions/preflight', action(other));
    expect(again).toMatchObject({ status: 403, body: { reason_code: 'passport.replay_detected' } });
  });

  it.each([
    ['malformed', 'not-a-passport', 'passport.malformed', 401],
    ['of nobody', `${'e30'}.${'e30'}.AAAA`, 'passport.malformed', 401],
  ])('that is %s is refused', async (_what, passport, reason_code, status) => {
    const answer = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(answer).toMatchObject({ status, body: { reason_code, decision: 'deny' } });
  });

  it('that expired or is for another audience is 401, one for another tool 200 and deny', async () => {
    const short = await passportFor({ ttl_seconds: 5 });
    gateway.services.clock.advance(6_000);
    const elsewhere = await passportFor({ audience: 'gateway://elsewhere' });
    const narrow = await passportFor({ allowed_tools: ['mail'] });
    const answers = await Promise.all(
      [short, elsewhere, narrow].map(({ passport }) =>
        gateway.post('/v1/actions/preflight', action({ passport })),
      ),
    );
    expect(answers.map(({ status, body }) => [status, body?.reason_code])).toEqual([
      [401, 'passport.expired'],
      [401, 'passport.audience_mismatch'],
      [200, 'passport.tool_not_allowed'],
    ]);
  });

  it('of another tenant is refused with 403', async () => {
    const stranger = await gateway.api.key({ tenantId: 'other' });
    const { passport } = await passportFor();
    const answer = await gateway.post('/v1/actions/preflight', action({ passport }), stranger);
    expect(answer).toMatchObject({
      status: 403,
      body: { reason_code: 'passport.tenant_mismatch' },
    });
    expect((await ask({ passport })).decision).toBe('allow');
  });

  it('of an agent holds for whomever the agent acts for', async () => {
    const { token } = await gateway.owner.call(issueAgentPassport, {
      body: { agent_id: Number(agentId), requested_tools: ['pay'] },
    });
    expect((await ask({ passport: token, user_id: 'anybody' })).decision).toBe('allow');
  });

  it('in monitor mode is only reported on, and spent all the same', async () => {
    const { passport } = await passportFor();
    expect((await ask({ passport, mode: 'monitor' })).decision).toBe('allow');
    const again = await gateway.post(
      '/v1/actions/preflight',
      action({ passport, mode: 'monitor' }),
    );
    expect(again).toMatchObject({ status: 200, body: { decision: 'deny', enforced: false } });
  });
});

describe('an idempotency key', () => {
  it('gives the first answer again and takes no second use of the passport', async () => {
    const { passport } = await passportFor();
    const body = { passport, idempotency_key: 'once' };
    const first = await ask(body);
    expect(first.decision).toBe('allow');
    expect(await ask(body)).toEqual(first);
  });

  it('gives a refusal again as the refusal it was', async () => {
    const { passport } = await passportFor();
    await ask({ passport });
    const body = action({ passport, idempotency_key: 'refused' });
    const first = await gateway.post('/v1/actions/preflight', body);
    const again = await gateway.post('/v1/actions/preflight', body);
    expect(first.status).toBe(403);
    expect([again.status, again.body]).toEqual([first.status, first.body]);
  });

  it('holds for preflight and its other name together', async () => {
    const { passport } = await passportFor();
    const body = action({ passport, idempotency_key: 'both names' });
    const one = await gateway.post('/v1/actions/preflight', body);
    const two = await gateway.post('/v1/actions/decision', body);
    expect(two.body).toEqual(one.body);
  });

  it('with another payload is refused', async () => {
    await ask({ idempotency_key: 'k' });
    const error = await refusalOf(ask({ idempotency_key: 'k', args: { amount: 6 } }));
    expect(error.code).toBe('args.idempotency_conflict');
  });

  it('makes one decision of many requests at once', async () => {
    const { passport } = await passportFor();
    const body = { passport, idempotency_key: 'at once' };
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask(body)));
    expect(new Set(answers.map(({ evidence_event_id }) => evidence_event_id)).size).toBe(1);
  });
});

describe('a registered tool', () => {
  beforeEach(async () => {
    const inputSchema = {
      type: 'object',
      properties: { amount: { type: 'number' } },
      required: ['amount'],
    };
    await gateway.publish(rule('allow', 'typed'));
    const manifest = { name: 'typed', riskTier: 'low', inputSchema, description: 'one' };
    await gateway.owner.call(ingestTool, { body: { manifest } });
  });

  it('takes only arguments that its approved schema takes', async () => {
    expect((await ask({ tool: 'typed' })).decision).toBe('allow');
    expect(await ask({ tool: 'typed', args: { amount: 'five' } })).toMatchObject({
      decision: 'deny',
      reason_code: 'args.schema_invalid',
    });
  });

  it('that drifted must be approved again before it works', async () => {
    const manifest = { name: 'typed', riskTier: 'low', description: 'two' };
    const { manifest_hash } = await gateway.owner.call(ingestTool, { body: { manifest } });
    const answer = await ask({ tool: 'typed' });
    expect(answer).toMatchObject({
      decision: 'require_tool_reapproval',
      tool_manifest_hash: manifest_hash,
      reason_code: expect.stringMatching(/^tool\./),
    });
  });
});

describe('when something breaks', () => {
  it('a policy that is not what its hash says denies, sealed', async () => {
    const { db } = gateway.services;
    const stranger = await gateway.api.client(await gateway.api.key({ tenantId: 'other' }));
    const made = await db.policy.create({
      data: {
        tenantId: 'other',
        name: 'forged',
        definitionId: 'forged',
        version: 1,
        lifecycle: 'published',
        definition: JSON.stringify({ id: 'forged', version: 1, rules: [rule('allow')] }),
        policyHash: `sha256:${'0'.repeat(64)}`,
        createdBy: 'mallory',
      },
    });
    const error = await refusalOf(ask({}, stranger));
    expect(error.code).toBe('policy.load_failed');
    expect(error.details).toMatchObject({ decision: 'deny' });
    const { row } = await sealed(String(error.details?.evidence_event_id), 'other');
    expect(row).toMatchObject({ decision: 'deny', reasonCode: 'policy.load_failed' });
    await db.policy.delete({ where: { id: made.id } });
  });
});
