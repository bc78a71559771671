import { idTimeMs } from '../base/ids.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { PassportClaims } from './claims.ts';

/**
 * The passport of a lease's use number `n` (from 0): the lease's claims under the jti
 * `<lease>.<n>`. Refuses a number that the lease does not cover.
 */
export function leasePassport(lease: PassportClaims, n: number): PassportClaims {
  if (!Number.isSafeInteger(n) || n < 0 || n >= (lease.lease_size ?? 0)) {
    throw new GatewayError('passport.lease_exhausted');
  }
  return { ...lease, jti: `${lease.jti}.${n}` };
}

/** The id under which a passport is revoked whole: its jti, for a use of a lease the lease's. */
export function revocationId(jti: string): string {
  const dot = jti.indexOf('.');
  return dot === -1 ? jti : jti.slice(0, dot);
}

/** True when this jti, or the lease it is a use of, is among the revoked ones. */
export function isRevoked(jti: string, revoked: ReadonlySet<string>): boolean {
  return revoked.size > 0 && (revoked.has(jti) || revoked.has(revocationId(jti)));
}

/**
 * True when a passport was issued before the bus began to remember claims (or when that cannot
 * be told): whether it was used cannot be known, so its use is `unavailable`, never `claimed`.
 * `epochMs` and the issuer's clock are taken to agree.
 */
export function issuedBeforeEpoch(jti: string, epochMs: number): boolean {
  const issuedMs = idTimeMs(jti);
  return issuedMs === undefined || issuedMs < epochMs;
}
