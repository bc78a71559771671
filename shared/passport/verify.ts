import { type JwsResult, verifyJws, verifyJwsAsync } from '../crypto/jws.ts';
import type { VerificationKeys } from '../crypto/signing-key.ts';
import { type PassportClaims, passportType } from './claims.ts';
import { claimsProblem } from './claims-form.ts';

/** The result of verifying only a passport's form, signature and claim types. */
export type PassportReading =
  | { readonly form: 'malformed' | 'signature_invalid'; readonly detail: string }
  | { readonly form: 'signed'; readonly claims: PassportClaims };

/** Verifies form, `typ`, key and signature of a passport, then every claim. Never throws. */
export function readPassport(token: string, keys: VerificationKeys): PassportReading {
  return readClaims(verifyJws(token, passportType, keys), keys);
}

/** Like `readPassport`, but verifies the signature on the thread pool. For hot paths. */
export async function readPassportAsync(
  token: string,
  keys: VerificationKeys,
): Promise<PassportReading> {
  return readClaims(await verifyJwsAsync(token, passportType, keys), keys);
}

function readClaims(jws: JwsResult, keys: VerificationKeys): PassportReading {
  if (!jws.ok) return { form: jws.problem, detail: jws.detail };
  // ES256 team keys sign other objects, so a passport signed with such a key is refused even if
  // `keys` contains the key.
  if (keys.get(jws.kid)?.alg !== 'EdDSA') {
    return { form: 'signature_invalid', detail: 'a passport must be signed with EdDSA' };
  }
  const problem = claimsProblem(jws.payload);
  if (problem !== undefined) return { form: 'malformed', detail: problem };
  // claimsProblem checked every member and its type.
  return { form: 'signed', claims: jws.payload as unknown as PassportClaims };
}
