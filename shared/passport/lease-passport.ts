import { idTimeMs } from '../base/ids.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { PassportClaims } from './claims.ts';

/**
 * The passport for use number `n` (from 0) of a lease: the lease's claims with the jti
 * `<lease>.<n>`. Refuses a number outside the lease.
 */
export function leasePassport(lease: PassportClaims, n: number): PassportClaims {
  if (!Number.isSafeInteger(n) || n < 0 || n >= (lease.lease_size ?? 0)) {
    throw new GatewayError('passport.lease_exhausted');
  }
  return { ...lease, jti: `${lease.jti}.${n}` };
}

/**
 * The id by which a passport is revoked: for a use of a lease the lease's jti, otherwise the
 * passport's jti.
 */
export function revocationId(jti: string): string {
  const dot = jti.indexOf('.');
  return dot === -1 ? jti : jti.slice(0, dot);
}

/** True if this jti, or the lease it belongs to, is revoked. */
export function isRevoked(jti: string, revoked: ReadonlySet<string>): boolean {
  return revoked.size > 0 && (revoked.has(jti) || revoked.has(revocationId(jti)));
}

/**
 * True if a passport was issued before the bus began to record claims, or if its time of issue is
 * unknown. Such a passport may have been used, so its use is `unavailable`, never `claimed`.
 * Assumes that `epochMs` and the issuer's clock agree.
 */
export function issuedBeforeEpoch(jti: string, epochMs: number): boolean {
  const issuedMs = idTimeMs(jti);
  return issuedMs === undefined || issuedMs < epochMs;
}
