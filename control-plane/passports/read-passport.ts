import { isJsonObject } from '../../shared/base/json.ts';
import {
  importPublicJwk,
  parsePublicJwk,
  type VerificationKey,
} from '../../shared/crypto/signing-key.ts';
import { type PassportReading, readPassportAsync } from '../../shared/passport/verify.ts';
import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';

interface KnownKey {
  readonly tenantId: string;
  readonly key: VerificationKey;
}

// Public keys by kid, cached for each database client. A kid's key never changes.
const knownKeys = new WeakMap<Services['db'], Map<string, KnownKey>>();
const knownKeysMax = 10_000;

/**
 * Reads a passport that was presented to a tenant. If a different tenant issued the passport for
 * itself, its signature is valid; the calling code then rejects it because of its tenant claim. If
 * the signing key does not belong to the tenant in the claims, the signature counts as invalid.
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
  const keys = signedRows({ db, guard }, 'signing_key');
  const find = (where: { readonly tenantId?: string }) =>
    keys.findUnverified({ where: { ...where, kid, purpose: 'passport' }, take: 1 });
  const own = await find({ tenantId });
  // Uses only verified rows, because a forged key row would make forged passports valid.
  const [row] = keys.valid(own.length > 0 ? own : await find({}));
  if (row === undefined) return undefined;
  const key = importPublicJwk(parsePublicJwk(row.publicJwk));
  // Computes the kid from the key itself, and rejects a row that has a different kid.
  if (key.kid !== kid) return undefined;
  if (known.size >= knownKeysMax) known.clear();
  const found = { tenantId: row.tenantId, key };
  known.set(kid, found);
  return found;
}

/** Returns the kid in a token's header. The kid is unverified, so use it only to find the key. */
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
