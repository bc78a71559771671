import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signPassport } from '../../../shared/passport/issue.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';
import {
  claimsFor,
  type PresentedVector,
  presentedVectors,
} from '../../support/policy/passport-vectors.ts';

const vectors = presentedVectors();
const statuses: Readonly<Record<string, number>> = {
  'passport.expired': 401,
  'passport.not_yet_valid': 401,
  'passport.audience_mismatch': 401,
  'passport.replay_detected': 403,
  'passport.revoked': 403,
  'passport.tenant_mismatch': 403,
  'passport.agent_mismatch': 403,
  'passport.user_mismatch': 403,
};
/** The reasons of checks that depend on the passport only, not on the action. */
const ofItself: ReadonlySet<string> = new Set([
  'passport.expired',
  'passport.not_yet_valid',
  'passport.tenant_mismatch',
  'passport.audience_mismatch',
  'passport.revoked',
  'passport.replay_detected',
]);

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('refund-bot', ['mcp.payments.*']);
  const when = { all: [{ path: 'tool.name', operator: '!=', value: '' }] };
  await gateway.publish({ name: 'all', decision: 'allow', reason: 'test.allowed', when });
}, 60_000);
afterAll(() => gateway?.close(), 60_000);

/**
 * Returns the signing key of the tenant in the claims. A passport that another key signed would be rejected
 * before the check that the vector tests.
 */
async function keyOf(tenantId: string) {
  const { db, signingKeys } = gateway.services;
  const create = { id: tenantId, name: tenantId };
  await db.tenant.upsert({ where: { id: tenantId }, update: {}, create });
  return signingKeys.active(tenantId, 'passport');
}

async function presented(vector: PresentedVector) {
  const { clock } = gateway.services;
  const { name, capabilities } = vector;
  const subject =
    capabilities === undefined ? agentId : await gateway.agent(name.slice(0, 100), capabilities);
  const present = { tenantId: 'default', userId: 'alice', nowMs: clock.now() };
  const claims = claimsFor(vector, { ...present, agentId: subject });
  const passport = signPassport(claims, await keyOf(claims.tenant_id));
  const action = { ...vector.action, agent_id: subject, user_id: 'alice', passport };
  if (vector.before === 'revoked') {
    await gateway.post('/v1/passports/revoke', { jti: claims.jti, reason: 'test' });
  }
  // The claim is made directly: a request would not consume a passport that a check refuses.
  if (vector.before === 'used') {
    await gateway.services.bus.claim('default', `jti:${claims.jti}`, 60_000);
  }
  return { passport, action };
}

describe('passport vectors, through preflight and verify', () => {
  it.each(vectors)('$name', async (vector) => {
    const { passport, action } = await presented(vector);
    const own = vector.fails.filter((code) => ofItself.has(code));
    const verified = await gateway.post('/v1/passports/verify', {
      passport,
      audience: 'gateway://agents',
    });
    const errors = verified.body?.errors as readonly { reason_code: string }[];
    expect({
      valid: verified.body?.valid,
      errors: errors.map((error) => error.reason_code),
    }).toEqual({
      valid: own.length === 0,
      errors: own,
    });
    const { status, body } = await gateway.post('/v1/actions/preflight', action);
    const [reason_code = 'test.allowed'] = vector.fails;
    expect({ status, body }).toMatchObject({
      status: statuses[reason_code] ?? 200,
      body: { decision: vector.fails.length === 0 ? 'allow' : 'deny', reason_code },
    });
  });

  it('include at least sixty cases', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(60);
  });
});
