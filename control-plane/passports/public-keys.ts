import { type PublicJwk, parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import { ttlSecondsMax } from '../../shared/passport/issue.ts';
import type { Services } from '../core/services.ts';

/** Allows for clock differences, and for leases signed right before a rotation. */
const overlapMs = (ttlSecondsMax + 600) * 1000;

/**
 * Public keys of every tenant that can have signed a valid passport, active keys first. All
 * tenants, because a verifier without an API key names none.
 */
export async function passportKeySet({
  db,
  clock,
  config,
  signingKeys,
  guard,
}: Services): Promise<readonly PublicJwk[]> {
  // Creates a first key, so that a new installation has one to show.
  await ensureFirstKey({ db, config, signingKeys });
  const rows = await db.signingKey.findMany({
    where: {
      purpose: 'passport',
      OR: [{ state: 'active' }, { retiredAt: { gt: new Date(clock.now() - overlapMs) } }],
    },
    orderBy: [{ state: 'asc' }, { createdAt: 'desc' }],
  });
  const verified = rows.filter((row) => guard.holds('signing_key', row));
  return verified.map(({ publicJwk }) => parsePublicJwk(publicJwk));
}

async function ensureFirstKey({
  db,
  config,
  signingKeys,
}: Pick<Services, 'db' | 'config' | 'signingKeys'>): Promise<void> {
  const tenant = await db.tenant.findUnique({ where: { id: config.tenantId } });
  if (tenant !== null) await signingKeys.active(tenant.id, 'passport');
}
