import { type PublicJwk, parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import { ttlSecondsMax } from '../../shared/passport/issue.ts';
import type { Services } from '../core/services.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';

/**
 * How long the key set still includes a retired key. The time allows for clock differences, and for
 * leases signed right before a rotation.
 */
const overlapMs = (ttlSecondsMax + 600) * 1000;

/**
 * Returns the public keys that may have signed a passport that is still valid, active keys first.
 * Includes the keys of all tenants, because a verifier without an API key names no tenant.
 */
export async function passportKeySet({
  db,
  clock,
  config,
  signingKeys,
  guard,
}: Services): Promise<readonly PublicJwk[]> {
  // Creates a first key, so that the key set of a new installation is not empty.
  await ensureFirstKey({ db, config, signingKeys });
  const rows = await signedRows({ db, guard }, 'signing_key').findValid({
    where: {
      purpose: 'passport',
      OR: [{ state: 'active' }, { retiredAt: { gt: new Date(clock.now() - overlapMs) } }],
    },
    orderBy: [{ state: 'asc' }, { createdAt: 'desc' }],
  });
  return rows.map(({ publicJwk }) => parsePublicJwk(publicJwk));
}

async function ensureFirstKey({
  db,
  config,
  signingKeys,
}: Pick<Services, 'db' | 'config' | 'signingKeys'>): Promise<void> {
  const { tenantId } = config;
  const count = await claimedRows(db, 'tenant').count({ id: tenantId });
  if (count > 0) await signingKeys.active(tenantId, 'passport');
}
