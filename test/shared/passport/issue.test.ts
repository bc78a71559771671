import { describe, expect, it } from 'vitest';
import { idTimeMs } from '../../../shared/base/ids.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, type PassportGrant, signPassport } from '../../../shared/passport/issue.ts';
import { nowMs } from '../fixtures.ts';

const grant: PassportGrant = {
  issuer: 'https://gateway.example',
  agentId: '7',
  audience: 'gateway://agents',
  tenantId: 'acme',
  userId: 'alice',
  goal: 'settle refunds',
  allowedTools: ['mcp.payments.*'],
  riskTier: 'low',
  policyId: 'refunds',
  policyHash: 'sha256:00',
  ttlSeconds: 300,
  nowMs: nowMs + 999,
};

describe('issuing a passport', () => {
  it('sets a lifetime that begins at the time of issue, rounded down to a second', () => {
    const claims = buildClaims(grant);
    expect(claims.iat).toBe(nowMs / 1000);
    expect(claims.nbf).toBe(claims.iat);
    expect(claims.exp - claims.iat).toBe(300);
    expect(idTimeMs(claims.jti)).toBe(nowMs + 999);
  });

  it('assigns a unique jti', () => {
    expect(new Set(Array.from({ length: 100 }, () => buildClaims(grant).jti)).size).toBe(100);
  });

  it('sets no restriction and no approval by default', () => {
    expect(buildClaims(grant)).toMatchObject({
      allowed_resources: [],
      resource_constraints: {},
      approval_hash: null,
    });
    expect(buildClaims(grant)).not.toHaveProperty('lease_size');
    expect(buildClaims({ ...grant, leaseSize: 100 }).lease_size).toBe(100);
  });

  it.each([4, 3601, 0, -300, 5.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'refuses a lifetime of %s seconds',
    (ttlSeconds) => {
      expect(() => buildClaims({ ...grant, ttlSeconds })).toThrow(
        expect.objectContaining({ code: 'passport.ttl_invalid' }),
      );
    },
  );

  it('accepts the shortest and the longest lifetime', () => {
    expect(buildClaims({ ...grant, ttlSeconds: 5 }).exp).toBe(nowMs / 1000 + 5);
    expect(buildClaims({ ...grant, ttlSeconds: 3600 }).exp).toBe(nowMs / 1000 + 3600);
  });

  it('refuses an ES256 key', () => {
    expect(() => signPassport(buildClaims(grant), generateSigningKey('ES256'))).toThrow(
      expect.objectContaining({ code: 'passport.sign_failed' }),
    );
  });
});
