import type { Bus } from '../bus/bus.ts';
import type { Effect } from '../vocabulary/verdict.ts';
import { issuedBeforeEpoch } from './single-use.ts';

/** Kept this long past expiry: a clock that is behind must not open a second use. */
export const claimMarginMs = 600_000;

/**
 * How long after it expired a passport may still be refreshed, and so has to be revoked with what
 * it belongs to: half as long as the bus remembers past expiry that one was used, so that a used
 * passport is never taken for an unused one.
 */
export const refreshGraceMs = claimMarginMs / 2;

const claimPrefix = 'jti:';

/** Under what a claim is kept on the bus. */
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
  /** The second lock, in the database: true for exactly one caller. */
  readonly claimDurably: (jti: string, expiresAtMs: number) => Promise<boolean>;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Takes the one use of a passport, over all replicas and sidecars: exactly one caller ever gets
 * `claimed`. Where that cannot be assured the answer is `unavailable`, never a guess.
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
