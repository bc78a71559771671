import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  getPassportJwks,
  issuePassport,
  revokePassport,
  verifyPassport,
} from '../../../shared/contract/passports.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

function request(more: object = {}) {
  return {
    tenant_id: 'default',
    agent_id: 'agent-x',
    user_id: 'user-1',
    goal: 'Refund',
    allowed_tools: ['pay'],
    risk_tier: 'low' as const,
    policy_id: 'refunds',
    audience: 'gateway://agents',
    ttl_seconds: 300,
    ...more,
  };
}

const issue = (more: object = {}, client = gateway.owner) =>
  client.call(issuePassport, { body: request(more) });
const verify = (body: { passport: string; audience?: string }, client = gateway.owner) =>
  client.call(verifyPassport, { body });
const codes = (report: { errors: readonly { reason_code: string }[] }) =>
  report.errors.map(({ reason_code }) => reason_code);

describe('issuing a passport', () => {
  it('signs a compact JWS that an independent library verifies with the public key set', async () => {
    const { passport, token, claims } = await issue();
    expect(token).toBe(passport);
    const keySet = createLocalJWKSet((await gateway.owner.call(getPassportJwks)) as JSONWebKeySet);
    const verified = await jwtVerify(passport, keySet, {
      algorithms: ['EdDSA'],
      typ: 'action-passport+jwt',
      audience: 'gateway://agents',
      currentDate: new Date(gateway.services.clock.now()),
    });
    expect(verified.payload).toEqual(claims);
  });

  it('stores the passport and seals an event that records the issuance', async () => {
    const { jti, evidence_id } = await issue({ agent_id: 'agent-sealed' });
    const { db } = gateway.services;
    const where = { tenantId_jti: { tenantId: 'default', jti } };
    expect(await db.passport.findUnique({ where })).toMatchObject({ kind: 'agent' });
    const row = await db.evidenceRow.findFirst({ where: { eventId: evidence_id } });
    expect(row).toMatchObject({ type: 'passport.issued', chainId: 'agent:agent-sealed' });
  });

  it('refuses a tenant other than the tenant of the key', async () => {
    const error = await refusalOf(issue({ tenant_id: 'other' }));
    expect(error.code).toBe('tenant.mismatch');
    expect(error.details).toMatchObject({ status: 403 });
  });

  it('omits requested tools that are not within the capabilities of a registered agent', async () => {
    const agent_id = await gateway.agent('clamped', ['pay', 'mail.*']);
    const { claims } = await issue({ agent_id, allowed_tools: ['pay', 'mail.send', 'shell'] });
    expect(claims.allowed_tools).toEqual(['pay', 'mail.send']);
    const none = await refusalOf(issue({ agent_id, allowed_tools: ['shell', '*'] }));
    expect(none.code).toBe('passport.tool_not_allowed');
  });

  it('refuses a passport that would exceed the size limit', async () => {
    const allowed_tools = Array.from({ length: 1000 }, (_, n) => `${'t'.repeat(200)}${n}`);
    expect((await refusalOf(issue({ allowed_tools }))).code).toBe('args.schema_invalid');
  });

  it.each([4, 3601])('refuses a lifetime of %s seconds', async (ttl_seconds) => {
    expect((await refusalOf(issue({ ttl_seconds }))).code).toBe('passport.ttl_invalid');
  });

  it('refuses a user or agent other than the key’s own if the key is bound to an agent', async () => {
    const agentId = Number(await gateway.agent('own'));
    const bound = await gateway.as({ role: 'agent', agentId, principal: 'bot' });
    const asUser = await refusalOf(issue({ agent_id: String(agentId) }, bound));
    expect(asUser.code).toBe('passport.user_mismatch');
    const asAgent = await refusalOf(issue({ user_id: 'bot' }, bound));
    expect(asAgent.code).toBe('agent.mismatch');
  });
});

describe('verifying a passport', () => {
  it('reports no problem for a new passport, and does not consume it', async () => {
    const { passport, claims } = await issue();
    for (let n = 0; n < 3; n++) {
      expect(await verify({ passport })).toEqual({ valid: true, errors: [], claims });
    }
  });

  it.each(['', 'x', 'a.b.c', '..', `${'x'.repeat(70_000)}.y.z`, '{"alg":"none"}'])(
    'returns 200 for a string that is not a passport: %.20s',
    async (passport) => {
      const report = await verify({ passport });
      expect(report.valid).toBe(false);
      expect(codes(report)).toEqual(['passport.malformed']);
    },
  );

  it('reports that a passport was already used, whatever its risk tier', async () => {
    for (const risk_tier of ['low', 'high']) {
      const { passport } = await issue({ risk_tier });
      const body = { tool: 'pay', resource: 'r', agent_id: 'agent-x', user_id: 'user-1', passport };
      expect((await gateway.post('/v1/actions/preflight', body)).status).toBe(200);
      expect(codes(await verify({ passport }))).toEqual(['passport.replay_detected']);
    }
  });

  it('reports a sidecar’s lease as malformed', async () => {
    const { services } = gateway;
    const grant = { ...grantOf('default'), leaseSize: 10, nowMs: services.clock.now() };
    const key = await services.signingKeys.active('default', 'passport');
    const passport = signPassport(buildClaims(grant), key);
    expect(codes(await verify({ passport }))).toEqual(['passport.malformed']);
  });

  it('reports every check that fails', async () => {
    const { passport, jti } = await issue({ ttl_seconds: 5 });
    await gateway.owner.call(revokePassport, { body: { jti } });
    gateway.services.clock.advance(6_000);
    const report = await verify({ passport, audience: 'somewhere else' });
    expect(codes(report).sort()).toEqual([
      'passport.audience_mismatch',
      'passport.expired',
      'passport.revoked',
    ]);
    expect(report.errors.every(({ check, message }) => check !== '' && message !== '')).toBe(true);
  });

  it('reports an invalid signature if an unknown key signed the passport', async () => {
    const { services } = gateway;
    const claims = buildClaims({ ...grantOf('default'), nowMs: services.clock.now() });
    const report = await verify({ passport: signPassport(claims, generateSigningKey()) });
    expect(codes(report)).toEqual(['passport.signature_invalid']);
  });

  it('reports that a passport belongs to another tenant, and does not return the passport’s claims', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const { passport } = await issue();
    const report = await verify({ passport }, stranger);
    expect(codes(report)).toEqual(['passport.tenant_mismatch']);
    expect(report.claims).toBeUndefined();
  });

  it('reports an invalid signature if another tenant’s key signed a passport for this tenant', async () => {
    const { services } = gateway;
    const key = await services.signingKeys.active('other', 'passport');
    const claims = buildClaims({ ...grantOf('default'), nowMs: services.clock.now() });
    const report = await verify({ passport: signPassport(claims, key) });
    expect(codes(report)).toEqual(['passport.signature_invalid']);
  });

  it('reports that the approval named in a passport is invalid', async () => {
    const approval_hash = `sha256:${'0'.repeat(64)}`;
    const { passport } = await issue({ approval_hash });
    expect(codes(await verify({ passport }))).toEqual(['approval.invalid']);
  });
});

function grantOf(tenantId: string) {
  return {
    issuer: 'sallyport',
    agentId: 'agent-x',
    audience: 'gateway://agents',
    tenantId,
    userId: 'user-1',
    goal: '',
    allowedTools: ['**'],
    riskTier: 'low',
    policyId: 'p',
    policyHash: '',
    ttlSeconds: 60,
  } as const;
}

describe('revoking a passport', () => {
  const revoke = (jti: string, client = gateway.owner) =>
    client.call(revokePassport, { body: { jti, reason: 'stolen' } });

  it('is permanent, updates the section that sidecars receive, and is recorded in the ledger once', async () => {
    const { jti } = await issue();
    const first = await revoke(jti);
    gateway.services.clock.advance(1_000);
    expect(await revoke(jti)).toEqual(first);
    const { db } = gateway.services;
    const where = { tenantId_name: { tenantId: 'default', name: 'revocations' } };
    expect(await db.syncSection.findUnique({ where })).not.toBeNull();
    const events = await db.evidenceRow.findMany({ where: { type: 'passport.revoked' } });
    expect(events.filter(({ canonical }) => canonical.includes(jti))).toHaveLength(1);
  });

  it('accepts an unknown jti', async () => {
    expect(await revoke('somebody-elses')).toMatchObject({ revoked: true, reason: 'stolen' });
  });

  it('does not affect other tenants', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const { jti, passport } = await issue();
    await revoke(jti, stranger);
    expect(await verify({ passport })).toMatchObject({ valid: true });
  });

  it('requires a permission that a key for issuing passports does not include', async () => {
    const developer = await gateway.as({ role: 'developer' });
    const error = await refusalOf(revoke('x', developer));
    expect(error.code).toBe('auth.insufficient_permission');
  });
});

describe('the JWKS of passport keys', () => {
  it('needs no API key, can be cached for five minutes, and contains no private keys', async () => {
    const answer = await gateway.api.send('GET', '/api/v1/passports/jwks');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toContain('max-age=300');
    const { keys } = answer.body as { keys: Record<string, string>[] };
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) {
      expect(key).toMatchObject({ kty: 'OKP', crv: 'Ed25519', use: 'sig' });
      expect(key).not.toHaveProperty('d');
    }
  });

  it('contains a retired key for as long as a passport signed with this key can be valid', async () => {
    const { services } = gateway;
    const kids = async () => (await gateway.owner.call(getPassportJwks)).keys.map(({ kid }) => kid);
    const { passport } = await issue({ ttl_seconds: 3600 });
    const { kid } = await services.signingKeys.active('default', 'passport');
    await rotatePassportKey();
    expect(await kids()).toContain(kid);
    expect(await verify({ passport })).toMatchObject({ valid: true });
    services.clock.advance(2 * 3600 * 1000);
    expect(await kids()).not.toContain(kid);
  });
});

async function rotatePassportKey() {
  const { services } = gateway;
  await services.db.signingKey.updateMany({
    where: { tenantId: 'default', purpose: 'passport', state: 'active' },
    data: { state: 'retired', retiredAt: new Date(services.clock.now()) },
  });
  services.clock.advance(2_000);
}
