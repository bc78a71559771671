import { type PublicJwk, parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import { ttlSecondsMax } from '../../shared/passport/issue.ts';
import type { Services } from '../core/services.ts';

/** For clocks that differ, and for leases signed just before a rotation. */
const overlapMs = (ttlSecondsMax + 600) * 1000;

/**
 * The keys of every tenant that a passport still valid can be signed with: who verifies without
 * an API key names no tenant. Active keys first.
 */
export async function passportKeySet({
  db,
  clock,
  config,
  signingKeys,
  guard,
}: Services): Promise<readonly PublicJwk[]> {
  // A new installation has a key to show before it issued its first passport.
  await ensureFirstKey({ db, config, signingKeys });
  const rows = await db.signingKey.findMany({
    where: {
      purpose: 'passport',
      OR: [{ state: 'active' }, { retiredAt: { gt: new Date(clock.now() - overlapMs) } }],
    },
    orderBy: [{ state: 'asc' }, { createdAt: 'desc' }],
  });
  const ours = rows.filter((row) => guard.holds('signing_key', row));
  return ours.map(({ publicJwk }) => parsePublicJwk(publicJwk));
}

async function ensureFirstKey({
  db,
  config,
  signingKeys,
}: Pick<Services, 'db' | 'config' | 'signingKeys'>): Promise<void> {
  const tenant = await db.tenant.findUnique({ where: { id: config.tenantId } });
  if (tenant !== null) await signingKeys.active(tenant.id, 'passport');
}
