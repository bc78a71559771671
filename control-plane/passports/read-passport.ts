import { isJsonObject } from '../../shared/base/json.ts';
import {
  importPublicJwk,
  parsePublicJwk,
  type VerificationKey,
} from '../../shared/crypto/signing-key.ts';
import { type PassportReading, readPassportAsync } from '../../shared/passport/verify.ts';
import type { Services } from '../core/services.ts';

interface KnownKey {
  readonly tenantId: string;
  readonly key: VerificationKey;
}

// Public keys by kid never change; kept with the database they were read from.
const knownKeys = new WeakMap<Services['db'], Map<string, KnownKey>>();
const knownKeysMax = 10_000;

/**
 * Reads a passport that somebody presents to a tenant. One that another tenant's key signed is
 * read as signed, so that it is refused for its tenant and not as a forgery; should it claim to
 * be this tenant's nevertheless, it is a forgery.
 */
export async function readPresented(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  token: string,
): Promise<PassportReading> {
  const kid = claimedKid(token);
  const known = kid === undefined ? undefined : await findKey(services, tenantId, kid);
  const keys = new Map(known === undefined ? [] : [[known.key.kid, known.key]]);
  const reading = await readPassportAsync(token, keys);
  if (reading.form !== 'signed' || reading.claims.tenant_id === known?.tenantId) return reading;
  return { form: 'signature_invalid', detail: 'its tenant does not sign with this key' };
}

async function findKey(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  kid: string,
): Promise<KnownKey | undefined> {
  const known = knownKeys.get(db) ?? new Map<string, KnownKey>();
  knownKeys.set(db, known);
  const remembered = known.get(kid);
  if (remembered !== undefined) return remembered;
  const row =
    (await db.signingKey.findFirst({ where: { tenantId, kid, purpose: 'passport' } })) ??
    (await db.signingKey.findFirst({ where: { kid, purpose: 'passport' } }));
  // A key that somebody put there would make passports of them.
  if (row === null || !guard.holds('signing_key', row)) return undefined;
  const key = importPublicJwk(parsePublicJwk(row.publicJwk));
  // The thumbprint is computed from the key itself: a row under a wrong name is not believed.
  if (key.kid !== kid) return undefined;
  if (known.size >= knownKeysMax) known.clear();
  const found = { tenantId: row.tenantId, key };
  known.set(kid, found);
  return found;
}

/** Which key a token names in its header, unverified: only good for finding that key. */
function claimedKid(token: string): string | undefined {
  try {
    const header: unknown = JSON.parse(
      Buffer.from(token.slice(0, 1024).split('.', 1)[0] ?? '', 'base64url').toString('utf8'),
    );
    const kid = isJsonObject(header) ? header.kid : undefined;
    return typeof kid === 'string' && /^[A-Za-z0-9_-]{43}$/.test(kid) ? kid : undefined;
  } catch {
    return undefined;
  }
}
