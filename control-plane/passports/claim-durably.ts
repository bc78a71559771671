import { claimMarginMs, type PassportClaim } from '../../shared/passport/single-use-claim.ts';
import type { Services } from '../core/services.ts';

/** The second lock on single use: true for exactly one caller, for as long as the row exists. */
export async function claimDurably(
  { db, clock }: Pick<Services, 'db' | 'clock'>,
  tenantId: string,
  { jti, expiresAtMs }: Omit<PassportClaim, 'durable'>,
): Promise<boolean> {
  const { count } = await db.passportUse.createMany({
    data: {
      tenantId,
      jti,
      usedAt: new Date(clock.now()),
      expiresAt: new Date(expiresAtMs + claimMarginMs),
    },
    skipDuplicates: true,
  });
  return count === 1;
}
