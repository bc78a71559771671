import type { ClaimStore } from '../../shared/bus/memory.ts';
import {
  claimKey,
  claimMarginMs,
  isClaimKey,
  type PassportClaim,
} from '../../shared/passport/single-use-claim.ts';
import type { Services } from '../core/services.ts';

const epochKey = { tenantId: '', key: 'epoch' };

/**
 * Stores the passport claims of the single-process bus in the database, so that they survive a
 * restart. The bus's epoch is the time of its first start.
 */
export async function openClaimStore({
  db,
  clock,
}: Pick<Services, 'db' | 'clock'>): Promise<ClaimStore> {
  const take = async (tenantId: string, key: string, untilMs: number) => {
    const data = [{ tenantId, key, expiresAt: new Date(untilMs) }];
    const { count } = await db.busClaim.createMany({ data, skipDuplicates: true });
    return count === 1;
  };
  const isTaken = async (tenantId: string, key: string) =>
    (await db.busClaim.count({ where: { tenantId, key } })) > 0;
  await take(epochKey.tenantId, epochKey.key, clock.now());
  const epoch = await db.busClaim.findUniqueOrThrow({ where: { tenantId_key: epochKey } });
  return { epochMs: epoch.expiresAt.getTime(), keeps: isClaimKey, take, isTaken };
}

/** Deletes claims of passports that have expired on every clock. */
export async function sweepClaims({ db, clock }: Pick<Services, 'db' | 'clock'>): Promise<void> {
  const expired = { expiresAt: { lte: new Date(clock.now()) } };
  await db.busClaim.deleteMany({ where: { ...expired, tenantId: { not: epochKey.tenantId } } });
  await db.passportUse.deleteMany({ where: expired });
}

/** Returns whether a passport was used, without claiming the passport. */
export async function lookUpUse(
  { bus, db, log }: Pick<Services, 'bus' | 'db' | 'log'>,
  tenantId: string,
  jti: string,
): Promise<'unclaimed' | 'replayed' | 'unavailable'> {
  const used = await db.passportUse.count({ where: { tenantId, jti } });
  if (used > 0) return 'replayed';
  try {
    return (await bus.isTaken(tenantId, claimKey(jti))) ? 'replayed' : 'unclaimed';
  } catch (cause) {
    log.warn({ err: cause, jti }, 'could not read whether a passport was used');
    return 'unavailable';
  }
}

/**
 * Claims a passport in the database, in addition to the bus. As long as the row exists, returns
 * true for only one caller.
 */
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
