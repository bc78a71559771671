import { claimKey } from '../../shared/passport/single-use-claim.ts';
import type { Services } from '../core/services.ts';

/** What became of a passport's one use, without taking it. */
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
    log.warn({ err: cause, jti }, 'whether a passport was used cannot be told');
    return 'unavailable';
  }
}
