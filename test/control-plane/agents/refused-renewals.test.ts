import { afterAll, describe, expect, it } from 'vitest';
import { updateAgent } from '../../../shared/contract/agents.ts';
import { issuePassport, revokePassport } from '../../../shared/contract/passports.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import { startGateway } from '../../support/control-plane/gateway.ts';
import { renewalStage } from './renewal-stage.ts';

const { gateway, agent_id, issue, renew, refresh, refused, use } = await renewalStage();
afterAll(() => gateway.close());

describe('a renewal is refused', () => {
  it('for a passport that was used, revoked or already renewed', async () => {
    const used = await issue();
    await use(used.token);
    expect(await refused(renew(used.token))).toEqual([403, 'passport.replay_detected']);
    const revoked = await issue();
    await gateway.owner.call(revokePassport, { body: { jti: revoked.claims.jti } });
    expect(await refused(renew(revoked.token))).toEqual([403, 'passport.revoked']);
    const renewed = await issue();
    await renew(renewed.token);
    expect(await refused(renew(renewed.token))).toEqual([403, 'passport.replay_detected']);
  });

  it('for an expired passport whose chain was revoked or whose agent was disabled just after the expiry', async () => {
    const { clock } = gateway.services;
    const lifeMs = 60_000;
    const first = await issue({ ttl_seconds: lifeMs / 1000 });
    const second = await renew(first.token);
    const other = await issue({ ttl_seconds: lifeMs / 1000 });
    clock.advance(lifeMs + 1_000);
    await gateway.owner.call(revokePassport, { body: { jti: first.claims.jti } });
    expect(await refused(refresh(second.token))).toEqual([403, 'passport.revoked']);
    for (const disabled of [true, false]) {
      await gateway.owner.call(updateAgent, { params: { id: agent_id }, body: { disabled } });
    }
    expect(await refused(refresh(other.token))).toEqual([403, 'passport.revoked']);
  });

  it('for a token that is malformed, forged, not valid yet, or of another tenant', async () => {
    const { signingKeys, clock } = gateway.services;
    const claims = (more: object = {}) =>
      buildClaims({
        issuer: 'sallyport',
        agentId: String(agent_id),
        audience: 'gateway://agents',
        tenantId: 'default',
        userId: '*',
        goal: '',
        allowedTools: ['pay'],
        riskTier: 'low',
        policyId: 'p',
        policyHash: '',
        ttlSeconds: 300,
        nowMs: clock.now(),
        ...more,
      });
    const key = await signingKeys.active('default', 'passport');
    const lease = signPassport(claims({ leaseSize: 5 }), key);
    const early = signPassport(claims({ nowMs: clock.now() + 60_000 }), key);
    const unknown = signPassport(claims(), key);
    const forged = signPassport(claims(), generateSigningKey('EdDSA'));
    const other = signPassport(
      claims({ tenantId: 'other' }),
      await signingKeys.active('other', 'passport'),
    );
    expect(
      await Promise.all([
        refused(renew('x')),
        refused(renew('')),
        refused(renew(lease)),
        refused(renew(forged)),
        refused(renew(early)),
        refused(renew(other)),
        refused(renew(unknown)),
      ]),
    ).toEqual([
      [401, 'passport.malformed'],
      [401, 'passport.malformed'],
      [401, 'passport.malformed'],
      [401, 'passport.signature_invalid'],
      [401, 'passport.not_yet_valid'],
      [403, 'passport.tenant_mismatch'],
      [403, 'passport.not_renewable'],
    ]);
  });

  it('for a passport of another agent, and for an agent that is disabled or unknown', async () => {
    const { token } = await issue();
    const another = Number(await gateway.agent('another'));
    expect(await refused(renew(token, { agent_id: another }))).toEqual([
      403,
      'passport.agent_mismatch',
    ]);
    expect(await refused(renew(token, { agent_id: 2_147_483_647 }))).toEqual([
      404,
      'agent.not_found',
    ]);
    const gone = Number(await gateway.agent('gone'));
    const theirs = await issue({ agent_id: gone });
    await gateway.owner.call(updateAgent, { params: { id: gone }, body: { disabled: true } });
    expect(await refused(renew(theirs.token, { agent_id: gone }))).toEqual([403, 'agent.disabled']);
  });

  it('for a passport whose approval is not valid', async () => {
    const { passport } = await gateway.owner.call(issuePassport, {
      body: {
        tenant_id: 'default',
        agent_id: String(agent_id),
        user_id: 'u',
        goal: '',
        allowed_tools: ['pay'],
        risk_tier: 'low',
        policy_id: 'p',
        approval_hash: `sha256:${'0'.repeat(64)}`,
        audience: 'gateway://agents',
        ttl_seconds: 60,
      },
    });
    expect(await refused(renew(passport))).toEqual([403, 'approval.invalid']);
  });

  it('while the bus is unavailable', async () => {
    const apart = await startGateway();
    try {
      const id = Number(await apart.agent('cut off'));
      const body = { agent_id: id, requested_tools: ['pay'] };
      const { body: issued } = await apart.post('/v1/agents/issue-passport', body);
      await apart.services.bus.close();
      const answer = await apart.post('/v1/agents/renew', {
        agent_id: id,
        passport: issued?.token,
      });
      expect(answer).toMatchObject({
        status: 503,
        body: { reason_code: 'passport.claim_unavailable' },
      });
    } finally {
      await apart.close();
    }
  });

  it('for a malformed request body', async () => {
    const { token: passport } = await issue();
    for (const body of [{ agent_id }, { passport }, { agent_id, passport, user_id: 'ceo' }]) {
      for (const path of ['/v1/agents/renew', '/v1/agents/refresh-passport']) {
        expect(await gateway.post(path, body)).toMatchObject({
          status: 400,
          body: { reason_code: 'args.schema_invalid' },
        });
      }
    }
  });
});
