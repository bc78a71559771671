import { issuedBeforeEpoch } from '../../shared/passport/single-use.ts';
import type { Services } from '../services.ts';

/** Kept this long past expiry: a clock that is behind must not open a second use. */
const marginMs = 600_000;

export interface PassportClaim {
  readonly jti: string;
  readonly expiresAtMs: number;
  /** Also with a unique row in the database. */
  readonly durable: boolean;
}

/**
 * Takes the one use of a passport, over all replicas and sidecars: exactly one caller ever gets
 * `claimed`. Where that cannot be assured the answer is `unavailable`, never a guess.
 */
export async function claimPassport(
  services: Pick<Services, 'bus' | 'db' | 'clock' | 'log'>,
  tenantId: string,
  { jti, expiresAtMs, durable }: PassportClaim,
): Promise<'claimed' | 'replayed' | 'unavailable'> {
  const { bus, clock, log } = services;
  const ttlMs = Math.max(expiresAtMs - clock.now(), 0) + marginMs;
  try {
    const { status, epochMs } = await bus.claim(tenantId, claimKey(jti), ttlMs);
    if (status === 'taken') return 'replayed';
    if (issuedBeforeEpoch(jti, epochMs)) return 'unavailable';
    if (!durable) return 'claimed';
    return (await claimDurably(services, tenantId, { jti, expiresAtMs })) ? 'claimed' : 'replayed';
  } catch (cause) {
    log.warn({ err: cause, jti }, 'a passport could not be claimed');
    return 'unavailable';
  }
}

function claimKey(jti: string): string {
  return `jti:${jti}`;
}

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
      expiresAt: new Date(expiresAtMs + marginMs),
    },
    skipDuplicates: true,
  });
  return count === 1;
}
