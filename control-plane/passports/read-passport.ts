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

// Cache of public keys by kid, which never change; keyed by their database.
const knownKeys = new WeakMap<Services['db'], Map<string, KnownKey>>();
const knownKeysMax = 10_000;

/**
 * Reads a passport that a tenant received. One signed by another tenant's key is read as signed, so
 * that it is refused for its tenant; if it claims to be this tenant's, it is a forgery.
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
  // A forged key row would make valid passports.
  const [row] = keys.valid(own.length > 0 ? own : await find({}));
  if (row === undefined) return undefined;
  const key = importPublicJwk(parsePublicJwk(row.publicJwk));
  // The kid is computed from the key itself, so a row under a wrong kid is refused.
  if (key.kid !== kid) return undefined;
  if (known.size >= knownKeysMax) known.clear();
  const found = { tenantId: row.tenantId, key };
  known.set(kid, found);
  return found;
}

/** The kid in a token's header. It is unverified, so use it only to find the key. */
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
