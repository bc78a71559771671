import { afterAll, describe, expect, it } from 'vitest';
import { revokePassport, verifyPassport } from '../../../shared/contract/passports.ts';
import { rule } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { renewalStage } from './renewal-stage.ts';

const { gateway, agent_id, issue, renew, refresh, refused, use, capable } = await renewalStage();
afterAll(() => gateway.close());

describe('a renewed passport', () => {
  it('has the terms of the old passport, but a new jti and new times', async () => {
    const old = await issue({
      user_id: 'user-1',
      requested_resources: ['payment:*'],
      resource_constraints: { max_amount: 5, customer_id: 'c1' },
      purpose: 'Refund',
      audience: 'gateway://elsewhere',
      risk_tier: 'high',
      ttl_seconds: 77,
    });
    gateway.services.clock.advance(10_000);
    const made = await renew(old.token);
    const { jti, iat, nbf, exp, ...terms } = made.claims;
    const { jti: oldJti, iat: oldIat, nbf: _nbf, exp: _exp, ...oldTerms } = old.claims;
    expect(terms).toEqual(oldTerms);
    expect(made.replaces).toBe(oldJti);
    expect(jti).not.toBe(oldJti);
    expect([iat, nbf, exp]).toEqual([oldIat + 10, oldIat + 10, oldIat + 10 + 77]);
    const report = await gateway.owner.call(verifyPassport, { body: { passport: made.token } });
    expect(report).toMatchObject({ valid: true });
  });

  it('works once, and the old passport is refused', async () => {
    const old = await issue();
    const made = await renew(old.token);
    expect(await use(old.token)).toMatchObject({
      status: 403,
      body: { reason_code: 'passport.replay_detected' },
    });
    expect(await use(made.token)).toMatchObject({ status: 200, body: { decision: 'allow' } });
    expect((await use(made.token)).status).toBe(403);
  });

  it('is recorded with the replaced jti, on the same evidence chain as the replaced passport', async () => {
    const old = await issue();
    const made = await renew(old.token);
    const events = await eventsOf(gateway.services, 'default');
    const about = events.filter(({ data }) =>
      [data.jti, data.replaced_by].includes(made.claims.jti),
    );
    expect(about.map(({ type, chain_id, data }) => [type, chain_id, data.jti])).toEqual([
      ['passport.renewed', `agent:${agent_id}`, old.claims.jti],
      ['passport.issued', `agent:${agent_id}`, made.claims.jti],
    ]);
    expect(about[1]?.data.replaces).toBe(old.claims.jti);
    expect(about[1]?.id).toBe(made.evidence_id);
  });

  it('omits tools that the agent lost, and is refused if no tool is left', async () => {
    const [one, two] = [await issue(), await issue()];
    await capable('mail', 'read.*');
    const made = await renew(one.token);
    expect(made.claims.allowed_tools).toEqual(['mail']);
    const events = await eventsOf(gateway.services, 'default');
    expect(events.findLast(({ type }) => type === 'passport.renewed')?.data).toMatchObject({
      left_out_tools: ['pay'],
    });
    await capable('read.*');
    expect(await refused(renew(two.token))).toEqual([403, 'passport.tool_not_allowed']);
    await capable('pay', 'mail', 'read.*', 'more');
    // The refusal did not consume the passport. Capabilities that the agent gained later are not added.
    expect((await renew(two.token)).claims.allowed_tools).toEqual(['pay', 'mail']);
  });

  it('has at most the lifetime of the old passport, and a shorter lifetime on request', async () => {
    const lifeOf = async (more: object) => {
      const { claims } = await renew((await issue({ ttl_seconds: 60 })).token, more);
      return claims.exp - claims.iat;
    };
    expect(await lifeOf({})).toBe(60);
    expect(await lifeOf({ ttl_seconds: 10 })).toBe(10);
    expect(await lifeOf({ ttl_seconds: 3600 })).toBe(60);
    const { token } = await issue();
    for (const ttl_seconds of [4, 3601]) {
      expect(await refused(renew(token, { ttl_seconds }))).toEqual([400, 'passport.ttl_invalid']);
    }
  });

  it('contains the hash of the policies that are published now', async () => {
    const old = await issue();
    const published = await gateway.publish(rule('allow', 'other'));
    expect(published).toMatch(/^sha256:/);
    const made = await renew(old.token);
    expect(made.claims.policy_hash).not.toBe(old.claims.policy_hash);
    expect(made.claims.policy_hash).toBe((await issue()).claims.policy_hash);
  });

  it('cannot be renewed more than twelve hours after the first issue', async () => {
    const { clock } = gateway.services;
    let { token } = await issue({ ttl_seconds: 3600 });
    for (let hour = 0; hour < 13; hour++) {
      clock.advance(3_500_000);
      const answer = await renew(token).catch((error: unknown) => error);
      if (hour < 11) {
        const made = answer as Awaited<ReturnType<typeof renew>>;
        expect(made.claims.exp - made.claims.iat).toBe(3600);
        token = made.token;
      } else if (hour === 11) {
        const made = answer as Awaited<ReturnType<typeof renew>>;
        // The earlier renewals used 12 × 3500 seconds of the twelve hours.
        expect(made.claims.exp - made.claims.iat).toBeLessThanOrEqual(1200);
        token = made.token;
        clock.advance(1_196_000 - 3_500_000);
      } else {
        expect(answer).toMatchObject({ code: 'passport.not_renewable' });
      }
    }
  });
});

describe('refreshing a passport', () => {
  it('accepts a passport that expired at most five minutes ago; a renewal refuses such a passport', async () => {
    const { clock } = gateway.services;
    const [one, two] = [await issue({ ttl_seconds: 5 }), await issue({ ttl_seconds: 5 })];
    clock.advance(5_000 + 299_000);
    expect(await refused(renew(one.token))).toEqual([401, 'passport.expired']);
    const made = await refresh(one.token);
    expect(made.claims.exp - made.claims.iat).toBe(5);
    expect(made.replaces).toBe(one.claims.jti);
    clock.advance(2_000);
    expect(await refused(refresh(two.token))).toEqual([401, 'passport.expired']);
  });

  it('accepts a passport that is still valid, as a renewal does', async () => {
    const { token } = await issue();
    expect((await use((await refresh(token)).token)).status).toBe(200);
  });

  it('refuses a used passport during the whole grace period', async () => {
    const used = await issue({ ttl_seconds: 5 });
    expect((await use(used.token)).status).toBe(200);
    const { clock } = gateway.services;
    clock.advance(used.claims.exp * 1000 + 299_999 - clock.now());
    expect(await refused(refresh(used.token))).toEqual([403, 'passport.replay_detected']);
  });

  it('succeeds for only one of many concurrent requests with the same expired passport', async () => {
    const { token } = await issue({ ttl_seconds: 5 });
    gateway.services.clock.advance(100_000);
    const settled = await Promise.allSettled(Array.from({ length: 20 }, () => refresh(token)));
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});

describe('revoking a passport', () => {
  it('revokes the passport and all its renewals, whichever passport of the chain the request names', async () => {
    for (const from of [0, 1, 2]) {
      const chain = [await issue()];
      for (let n = 0; n < 2; n++) {
        const made = await renew(chain.at(-1)?.token ?? '');
        chain.push(made);
      }
      const jti = chain[from]?.claims.jti ?? '';
      await gateway.owner.call(revokePassport, { body: { jti } });
      expect((await use(chain[2]?.token ?? '')).body?.reason_code).toBe('passport.revoked');
    }
  });

  it('leaves no valid passport if it runs concurrently with a renewal', async () => {
    for (let round = 0; round < 10; round++) {
      const { token, claims } = await issue();
      const [renewed] = await Promise.allSettled([
        renew(token),
        gateway.owner.call(revokePassport, { body: { jti: claims.jti } }),
      ]);
      const left = renewed?.status === 'fulfilled' ? renewed.value.token : token;
      const report = await gateway.owner.call(verifyPassport, { body: { passport: left } });
      expect(report.errors.map(({ reason_code }) => reason_code)).toContain('passport.revoked');
    }
  });

  it('does not affect other agents’ passports if the key is bound to an agent', async () => {
    const another = Number(await gateway.agent('apart'));
    const { claims } = await issue();
    const bound = await gateway.as({ role: 'admin', agentId: another });
    for (const jti of [claims.jti, 'pp_unknown']) {
      expect(await refused(bound.call(revokePassport, { body: { jti } }))).toEqual([
        403,
        'agent.mismatch',
      ]);
    }
    const own = await gateway.as({ role: 'admin', agentId: agent_id });
    expect(await own.call(revokePassport, { body: { jti: claims.jti } })).toMatchObject({
      revoked: true,
    });
  });
});
