import { newId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { signJws } from '../crypto/jws.ts';
import type { SigningKey } from '../crypto/signing-key.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { RiskTier } from '../vocabulary/action.ts';
import { type PassportClaims, passportType } from './claims.ts';

export const ttlSecondsMin = 5;
export const ttlSecondsMax = 3600;
export const ttlSecondsDefault = 300;

export interface PassportGrant {
  readonly issuer: string;
  readonly agentId: string;
  readonly audience: string;
  readonly tenantId: string;
  readonly userId: string;
  readonly goal: string;
  readonly allowedTools: readonly string[];
  /** Absent or empty: every resource. */
  readonly allowedResources?: readonly string[] | undefined;
  readonly resourceConstraints?: JsonObject | undefined;
  readonly riskTier: RiskTier;
  readonly policyId: string;
  readonly policyHash: string;
  readonly approvalHash?: string | null | undefined;
  /** 5 to 3600. */
  readonly ttlSeconds: number;
  /** Makes the passport a lease that covers this many uses. */
  readonly leaseSize?: number | undefined;
  readonly nowMs: number;
}

/** The claims of a new passport with its own jti; refuses a lifetime outside 5 to 3600 seconds. */
export function buildClaims(grant: PassportGrant): PassportClaims {
  const { ttlSeconds, leaseSize } = grant;
  assertTtl(ttlSeconds);
  const issuedAt = Math.floor(grant.nowMs / 1000);
  const claims: PassportClaims = {
    iss: grant.issuer,
    sub: grant.agentId,
    aud: grant.audience,
    tenant_id: grant.tenantId,
    user_id: grant.userId,
    goal: grant.goal,
    allowed_tools: grant.allowedTools,
    allowed_resources: grant.allowedResources ?? [],
    resource_constraints: grant.resourceConstraints ?? {},
    risk_tier: grant.riskTier,
    policy_id: grant.policyId,
    policy_hash: grant.policyHash,
    approval_hash: grant.approvalHash ?? null,
    jti: newId('pp', grant.nowMs),
    iat: issuedAt,
    nbf: issuedAt,
    exp: issuedAt + ttlSeconds,
  };
  return leaseSize === undefined ? claims : { ...claims, lease_size: leaseSize };
}

export function assertTtl(ttlSeconds: number): void {
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < ttlSecondsMin || ttlSeconds > ttlSecondsMax) {
    throw new GatewayError('passport.ttl_invalid');
  }
}

/** Signs claims as an Action Passport: a compact JWS, EdDSA only. */
export function signPassport(claims: PassportClaims, key: SigningKey): string {
  if (key.alg !== 'EdDSA') {
    throw new GatewayError('passport.sign_failed', {
      cause: new TypeError(`passports are signed with EdDSA, not ${key.alg}`),
    });
  }
  try {
    return signJws(claims, passportType, key);
  } catch (cause) {
    throw new GatewayError('passport.sign_failed', { cause });
  }
}
