import type { Bus } from '../bus/bus.ts';
import type { Effect } from '../vocabulary/verdict.ts';
import { issuedBeforeEpoch } from './lease-passport.ts';

/**
 * A claim is kept this long after the passport has expired, so that a slow clock does not allow a
 * second use.
 */
export const claimMarginMs = 600_000;

/**
 * How long after expiry a passport can still be refreshed. During this time, revoking another
 * passport of the same chain of renewals must also revoke this one. Shorter than `claimMarginMs`,
 * so that a used passport never looks unused.
 */
export const refreshGraceMs = claimMarginMs / 2;

const claimPrefix = 'jti:';

/** The key of a claim on the bus. */
export function claimKey(jti: string): string {
  return `${claimPrefix}${jti}`;
}

export function isClaimKey(key: string): boolean {
  return key.startsWith(claimPrefix);
}

export type PassportClaim = Omit<Extract<Effect, { readonly kind: 'claim_passport' }>, 'kind'>;

interface ClaimDeps {
  readonly bus: Pick<Bus, 'claim'>;
  readonly tenantId: string;
  readonly nowMs: number;
  /** Claims the passport in the database as well; true for exactly one caller. */
  readonly claimDurably: (jti: string, expiresAtMs: number) => Promise<boolean>;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Claims the single use of a passport across all replicas and sidecars: exactly one caller gets
 * `claimed`. If that cannot be guaranteed, the result is `unavailable`.
 */
export async function claimPassport(
  { jti, expiresAtMs, durable }: PassportClaim,
  { bus, tenantId, nowMs, claimDurably, onFailure }: ClaimDeps,
): Promise<'claimed' | 'replayed' | 'unavailable'> {
  const ttlMs = Math.max(expiresAtMs - nowMs, 0) + claimMarginMs;
  try {
    const { status, epochMs } = await bus.claim(tenantId, claimKey(jti), ttlMs);
    if (status === 'taken') return 'replayed';
    if (issuedBeforeEpoch(jti, epochMs)) return 'unavailable';
    if (!durable) return 'claimed';
    return (await claimDurably(jti, expiresAtMs)) ? 'claimed' : 'replayed';
  } catch (error) {
    onFailure(error);
    return 'unavailable';
  }
}
