import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { actionRoutes } from '../../../control-plane/actions/routes.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import { armKillSwitch, disarmKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { issuePassport, revokePassport } from '../../../shared/contract/passports.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { until } from '../../support/base/until.ts';
import { startApi } from '../../support/control-plane/api.ts';
import { rule } from '../../support/control-plane/gateway.ts';
import { executeStage } from './execute-stage.ts';

const stage = await executeStage();
const { gateway, services, upstream, run, send, bind, eventById, agentId } = stage;
const { owner } = gateway;
afterAll(() => stage.close());

const tenantMode = (mode: string) =>
  services.db.tenant.update({ where: { id: 'default' }, data: { mode } });
afterEach(() => tenantMode('enforce'));

const issued = (more: JsonObject = {}) =>
  owner.call(issuePassport, {
    body: {
      tenant_id: 'default',
      agent_id: agentId,
      user_id: 'user-1',
      goal: '',
      allowed_tools: ['**'],
      risk_tier: 'low',
      policy_id: 'p1',
      ttl_seconds: 300,
      audience: 'gateway://agents',
      ...more,
    } as never,
  });
const passportFor = async (more: JsonObject = {}) => (await issued(more)).passport;

/** Runs `work` and expects that the upstream receives exactly this number of calls from it. */
async function expectSent(calls: number, work: () => Promise<unknown>) {
  const before = upstream.seen.length;
  await work();
  expect(upstream.seen.length - before).toBe(calls);
}

describe('execute', () => {
  it.each<[string, JsonObject, object]>([
    ['that a policy denies', { tool: 'shell' }, { decision: 'deny', reason_code: 'test.deny' }],
    ['that no policy allows', { tool: 'stray' }, { reason_code: 'policy.no_match' }],
    ['of an unknown agent', { agent_id: '99999' }, { reason_code: 'agent.not_found' }],
    [
      'whose resource differs from the resource in its arguments',
      { args: { invoice: '8', amount: 40 } },
      { decision: 'deny', reason_code: 'args.resource_mismatch' },
    ],
    [
      'that lacks an argument which the path needs',
      { args: {} },
      { reason_code: 'args.schema_invalid' },
    ],
    [
      'whose argument would change the path',
      { resource: 'invoice:../admin', args: { invoice: '../admin' } },
      { reason_code: 'args.resource_ambiguous' },
    ],
  ])('sends nothing for an action %s', async (_what, more, expected) => {
    await expectSent(0, async () => {
      const answered = await run(more);
      expect(answered).toMatchObject({ executed: false, enforced: true, ...expected });
      expect(await eventById(answered.evidence_event_id)).toMatchObject({
        type: 'decision',
        decision: 'deny',
        reason_code: answered.reason_code,
      });
      expect(answered.result_event_id).toBeUndefined();
    });
  });

  it('opens no approval and sends nothing if no binding with an upstream covers the tool', async () => {
    await gateway.publish(rule('allow', 'loose'), rule('require_approval', 'looser'));
    await bind('loose', { upstream: undefined });
    for (const tool of ['loose', 'looser']) {
      const answered = await run({ tool });
      expect(answered).toMatchObject({ executed: false, reason_code: 'execution.not_configured' });
      expect(answered.approval_request_id).toBeUndefined();
    }
  });

  it('sends nothing if the row of the binding was changed directly in the database', async () => {
    await gateway.publish(rule('allow', 'forged'));
    await bind('forged');
    const upstreamUrl = { url: `https://${stage.host}/else/{invoice}`, method: 'POST' };
    const row = await services.db.binding.findFirstOrThrow({ where: { name: 'forged' } });
    await services.db.binding.updateMany({
      where: { name: 'forged' },
      data: { definition: { ...(row.definition as object), upstream: upstreamUrl } },
    });
    await expectSent(0, async () => {
      expect(await run({ tool: 'forged' })).toMatchObject({
        reason_code: 'integrity.forged_row',
      });
    });
  });

  it('denies a tool outside the agent’s capabilities, even if a policy allows it', async () => {
    const narrow = await gateway.agent('narrow', ['crm.*']);
    const answered = await run({ agent_id: narrow });
    expect(answered).toMatchObject({ executed: false, reason_code: 'passport.tool_not_allowed' });
  });

  it('denies a disabled agent, also in monitor mode', async () => {
    const gone = await gateway.agent('gone');
    await services.db.agent.update({
      where: { id: Number(gone) },
      data: { disabledAt: new Date() },
    });
    await tenantMode('monitor');
    await expectSent(0, async () => {
      const answered = await run({ agent_id: gone, mode: 'monitor' });
      expect(answered).toMatchObject({
        decision: 'deny',
        enforced: true,
        executed: false,
        reason_code: expect.stringMatching(/^agent\.(?:not_found|disabled)$/),
      });
    });
  });

  it('returns 401 without a passport in strict mode', async () => {
    const answered = await send({ mode: 'strict' });
    expect(answered).toMatchObject({ status: 401, body: { reason_code: 'passport.missing' } });
  });

  it('returns 429 when the tenant’s budget is exhausted', async () => {
    const few = { requestsPerMinute: { tenant: 1, control: 1, sidecar: 1, address: 1 } };
    const api = await startApi(actionRoutes(services), services, { limits: few });
    const ask = () =>
      api.send('POST', '/api/v1/actions/execute', {
        key: stage.key,
        body: stage.action(),
      });
    await ask();
    const answered = await ask();
    await api.close();
    expect(answered).toMatchObject({ status: 429, body: { reason_code: 'rate_limited' } });
    expect(answered.headers.get('retry-after')).toMatch(/^\d+$/);
  });

  it('returns 400 for an invalid body', async () => {
    const answered = await gateway.post('/v1/actions/execute', { tool: 'pay' }, stage.key);
    expect(answered).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });

  it('refuses to send a credential over plain HTTP unless the credential is bound to the upstream’s port', async () => {
    await gateway.publish(rule('allow', 'plain'));
    await bind('plain', { upstream: { url: 'http://plain.example/{invoice}', method: 'POST' } });
    const credential = { name: 'plain', secret: 's3cret-of-plain', inject: { in: 'bearer' } };
    const stored = await gateway.post('/v1/credentials', {
      ...credential,
      bind: { tools: ['plain'], hosts: ['plain.example'] },
    });
    expect(stored.status).toBe(200);
    const answered = await run({ tool: 'plain' });
    expect(answered).toMatchObject({ reason_code: 'credential.insecure_transport' });
  });
});

describe('the mode of an execute request', () => {
  it('cannot be looser than the mode of the tenant', async () => {
    await expectSent(0, async () => {
      const answered = await run({ tool: 'shell', mode: 'monitor' });
      expect(answered).toMatchObject({ mode: 'enforce', enforced: true, executed: false });
    });
  });

  it('permits a denied action if the tenant’s mode is monitor; the response reports the denial', async () => {
    await tenantMode('monitor');
    await expectSent(1, async () => {
      const answered = await run({ tool: 'shell' });
      expect(answered).toMatchObject({ decision: 'deny', enforced: false, executed: true });
    });
  });
});

describe('a passport', () => {
  it('allows only one call, even if many concurrent requests present the passport', async () => {
    const passport = await passportFor();
    await expectSent(1, async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, () => send({ passport })));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(403)]);
    });
  });

  it('is not consumed if the action is refused before the call', async () => {
    const passport = await passportFor();
    await run({ passport, resource: 'invoice:other' });
    expect(await run({ passport })).toMatchObject({ executed: true });
  });
});

describe('an approval', () => {
  it('allows only the approved action, and only once', async () => {
    const asked = await run({ tool: 'refund' });
    expect(asked).toMatchObject({ decision: 'require_approval', executed: false });
    const approver = await gateway.as({ role: 'approver', principal: 'anna' });
    const { event_hash } = await approver.call(decideApproval, {
      params: { id: Number(asked.approval_request_id) },
      body: { action: 'approve' },
    });
    const granted = () => passportFor({ approval_hash: event_hash });
    await expectSent(1, async () => {
      const other = { resource: 'invoice:8', args: { invoice: '8', amount: 40 } };
      expect(await run({ tool: 'refund', passport: await granted(), ...other })).toMatchObject({
        executed: false,
        reason_code: 'approval.invalid',
      });
      expect(await run({ tool: 'refund', passport: await granted() })).toMatchObject({
        executed: true,
        reason_code: 'approval.satisfied',
      });
      expect(await run({ tool: 'refund', passport: await granted() })).toMatchObject({
        executed: false,
        reason_code: 'approval.used',
      });
    });
  });
});

describe('an allowed call whose conditions change before it is sent', () => {
  /** Stops the action while its decision is being sealed, applies a change, and lets the action continue. */
  async function meanwhile(happens: () => Promise<unknown>, more: JsonObject = {}) {
    const holder = await services.pool.connect();
    try {
      await holder.query('begin');
      await holder.query('lock table evidence_salt in exclusive mode');
      const running = run(more);
      await until(async () => {
        const { rows } = await services.pool.query(
          "select 1 from pg_locks where relation = 'evidence_salt'::regclass and not granted",
        );
        return rows.length > 0;
      });
      await happens();
      await holder.query('commit');
      return await running;
    } finally {
      holder.release(true);
    }
  }

  async function expectStopped(answered: Awaited<ReturnType<typeof run>>, code: string) {
    expect(answered).toMatchObject({ executed: false, failure: { reason_code: code } });
    expect(await eventById(String(answered.result_event_id))).toMatchObject({
      type: 'execution.result',
      reason_code: code,
      data: { decision_event_id: answered.evidence_event_id, executed: false },
    });
  }

  it.each<[string, JsonObject]>([
    ['tool', { kind: 'block_tool', tool: 'pay' }],
    ['agent', { kind: 'block_agent', agent_id: agentId }],
  ])('is stopped if a kill switch is armed for the %s', async (_what, armed) => {
    let id = '';
    await expectSent(0, async () => {
      const answered = await meanwhile(async () => {
        const body = { ...armed, reason: 'Incident' } as never;
        id = (await owner.call(armKillSwitch, { body })).id;
      });
      await expectStopped(answered, 'runtime.kill_switch');
    });
    await owner.call(disarmKillSwitch, { params: { id } });
    expect(await run()).toMatchObject({ executed: true });
  });

  it('is stopped if only mode monitor allowed it and a kill switch then forces mode enforce', async () => {
    await tenantMode('monitor');
    let id = '';
    await expectSent(0, async () => {
      const answered = await meanwhile(
        async () => {
          const body = { kind: 'force_mode', mode: 'enforce', reason: 'Incident' } as const;
          id = (await owner.call(armKillSwitch, { body })).id;
        },
        { tool: 'shell' },
      );
      await expectStopped(answered, 'runtime.kill_switch');
    });
    await owner.call(disarmKillSwitch, { params: { id } });
  });

  it('is stopped if the agent is disabled', async () => {
    const id = Number(agentId);
    await expectSent(0, async () => {
      const answered = await meanwhile(() =>
        services.db.agent.update({ where: { id }, data: { disabledAt: new Date() } }),
      );
      expect(answered.failure?.reason_code).toMatch(/^agent\./);
      expect(answered.executed).toBe(false);
    });
    await services.db.agent.update({ where: { id }, data: { disabledAt: null } });
  });

  it('is stopped if the passport is revoked', async () => {
    const { passport, jti } = await issued();
    await expectSent(0, async () => {
      const answered = await meanwhile(() => owner.call(revokePassport, { body: { jti } }), {
        passport,
      });
      await expectStopped(answered, 'passport.revoked');
    });
  });

  it('is stopped if the tool’s manifest changes', async () => {
    const manifest = (description: string) => ({ name: 'pay', description, riskTier: 'low' });
    await owner.call(ingestTool, { body: { manifest: manifest('Pays') } as never });
    expect(await run()).toMatchObject({ executed: true });
    await expectSent(0, async () => {
      const answered = await meanwhile(() =>
        owner.call(ingestTool, { body: { manifest: manifest('Pays anybody') } as never }),
      );
      await expectStopped(answered, 'tool.manifest_changed');
      expect(await run()).toMatchObject({ decision: 'require_tool_reapproval', executed: false });
    });
  });
});
