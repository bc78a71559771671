import { afterAll, describe, expect, it } from 'vitest';
import { issueAgentPassport } from '../../../shared/contract/agent-passports.ts';
import { revokePassport } from '../../../shared/contract/passports.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { preflightStage } from './preflight-stage.ts';

const { gateway, agentId, action, ask, passportFor, sealed } = await preflightStage();
afterAll(() => gateway.close());

describe('a passport in preflight', () => {
  it('is consumed by one decision: the second request gets 403', async () => {
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
    'allows only one of many concurrent requests if its risk tier is %s',
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

  it('stays consumed if its risk tier is critical, even after the bus lost its data', async () => {
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

  it('is refused if it was revoked, and is consumed even if a policy denies the action', async () => {
    const { passport, jti } = await passportFor();
    await gateway.owner.call(revokePassport, { body: { jti } });
    const revoked = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(revoked).toMatchObject({ status: 403, body: { reason_code: 'passport.revoked' } });
    const other = await passportFor();
    expect((await ask({ tool: 'shell', passport: other.passport })).decision).toBe('deny');
    const again = await gateway.post('/v1/actions/preflight', action({ passport: other.passport }));
    expect(again).toMatchObject({ status: 403, body: { reason_code: 'passport.replay_detected' } });
  });

  it.each([
    ['malformed', 'not-a-passport', 'passport.malformed', 401],
    ['without any claim', `${'e30'}.${'e30'}.AAAA`, 'passport.malformed', 401],
  ])('is refused if it is %s', async (_what, passport, reason_code, status) => {
    const answer = await gateway.post('/v1/actions/preflight', action({ passport }));
    expect(answer).toMatchObject({ status, body: { reason_code, decision: 'deny' } });
  });

  it('gets 401 if it is expired or for another audience, but 200 with decision deny if it does not cover the tool', async () => {
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

  it('is refused with 403 if it belongs to another tenant', async () => {
    const stranger = await gateway.api.key({ tenantId: 'other' });
    const { passport } = await passportFor();
    const answer = await gateway.post('/v1/actions/preflight', action({ passport }), stranger);
    expect(answer).toMatchObject({
      status: 403,
      body: { reason_code: 'passport.tenant_mismatch' },
    });
    expect((await ask({ passport })).decision).toBe('allow');
  });

  it('without a user is valid for every user that the agent acts for', async () => {
    const { token } = await gateway.owner.call(issueAgentPassport, {
      body: { agent_id: Number(agentId), requested_tools: ['pay'] },
    });
    expect((await ask({ passport: token, user_id: 'anybody' })).decision).toBe('allow');
  });

  it('is also consumed in mode monitor, which reports a failed check but does not enforce it', async () => {
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
  it('makes a repeated request return the first response without using the passport again', async () => {
    const { passport } = await passportFor();
    const body = { passport, idempotency_key: 'once' };
    const first = await ask(body);
    expect(first.decision).toBe('allow');
    expect(await ask(body)).toEqual(first);
  });

  it('makes a repeated request return the refusal of the first request unchanged', async () => {
    const { passport } = await passportFor();
    await ask({ passport });
    const body = action({ passport, idempotency_key: 'refused' });
    const first = await gateway.post('/v1/actions/preflight', body);
    const again = await gateway.post('/v1/actions/preflight', body);
    expect(first.status).toBe(403);
    expect([again.status, again.body]).toEqual([first.status, first.body]);
  });

  it('is shared by preflight and the alias `decision`', async () => {
    const { passport } = await passportFor();
    const body = action({ passport, idempotency_key: 'both names' });
    const one = await gateway.post('/v1/actions/preflight', body);
    const two = await gateway.post('/v1/actions/decision', body);
    expect(two.body).toEqual(one.body);
  });

  it('is refused if the repeated request has a different payload', async () => {
    await ask({ idempotency_key: 'k' });
    const error = await refusalOf(ask({ idempotency_key: 'k', args: { amount: 6 } }));
    expect(error.code).toBe('args.idempotency_conflict');
  });

  it('leads to one decision for many concurrent requests', async () => {
    const { passport } = await passportFor();
    const body = { passport, idempotency_key: 'at once' };
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask(body)));
    expect(new Set(answers.map(({ evidence_event_id }) => evidence_event_id)).size).toBe(1);
  });
});
