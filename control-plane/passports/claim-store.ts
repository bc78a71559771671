import type { ClaimStore } from '../../shared/bus/memory.ts';
import { isClaimKey } from '../../shared/passport/single-use-claim.ts';
import type { Services } from '../core/services.ts';

const epochKey = { tenantId: '', key: 'epoch' };

/**
 * Keeps the single-process bus's claims of passports in the database, so that a restart neither
 * forgets a used passport nor has to refuse an unused one. Its epoch is its first start.
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

/** Deletes claims of passports that no clock can consider valid any more. */
export async function sweepClaims({ db, clock }: Pick<Services, 'db' | 'clock'>): Promise<void> {
  const expired = { expiresAt: { lte: new Date(clock.now()) } };
  await db.busClaim.deleteMany({ where: { ...expired, tenantId: { not: epochKey.tenantId } } });
  await db.passportUse.deleteMany({ where: expired });
}
