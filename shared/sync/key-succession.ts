import { z } from 'zod';
import { signJws, verifyJws } from '../crypto/jws.ts';
import {
  importPublicJwk,
  type PublicJwk,
  type SigningKey,
  type VerificationKeys,
  verificationKeys,
} from '../crypto/signing-key.ts';
import { jwkSchema } from './section-schemas.ts';

const successionType = 'sallyport-key-succession+jws';

const successionSchema = z.strictObject({ tenant: z.string(), to: jwkSchema });

/**
 * Signs the statement that `to` replaces `from` as the tenant's key for sections and heartbeats.
 */
export function signSuccession(tenant: string, from: SigningKey, to: PublicJwk): string {
  const { kty, crv, x, kid, use, alg } = to;
  return signJws({ tenant, to: { kty, crv, x, kid, use, alg } }, successionType, from);
}

/**
 * Follows a chain of succession statements from the currently trusted keys and returns the last key
 * of the chain. Each statement must be signed by the preceding key. A key that is no longer trusted
 * cannot name a successor. Other statements are skipped.
 */
export function followSuccession(
  statements: readonly string[],
  { tenant, trusted }: { readonly tenant: string; readonly trusted: VerificationKeys },
): PublicJwk | undefined {
  let tip: PublicJwk | undefined;
  let believed = trusted;
  for (const statement of statements) {
    const verified = verifyJws(statement, successionType, believed);
    if (!verified.ok) continue;
    const parsed = successionSchema.safeParse(verified.payload);
    if (!parsed.success || parsed.data.tenant !== tenant) continue;
    const { to } = parsed.data;
    tip = { ...to, kid: importPublicJwk(to).kid };
    believed = verificationKeys([tip]);
  }
  return tip;
}
