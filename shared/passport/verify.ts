import { type JwsResult, verifyJws, verifyJwsAsync } from '../crypto/jws.ts';
import type { VerificationKeys } from '../crypto/signing-key.ts';
import { type PassportClaims, passportType } from './claims.ts';
import { claimsProblem } from './claims-form.ts';

/** A passport whose form, signature and claims were read; nothing else about it is known yet. */
export type PassportReading =
  | { readonly form: 'malformed' | 'signature_invalid'; readonly detail: string }
  | { readonly form: 'signed'; readonly claims: PassportClaims };

/** Reads a passport: form, `typ`, key, signature, then every claim. Never throws. */
export function readPassport(token: string, keys: VerificationKeys): PassportReading {
  return readClaims(verifyJws(token, passportType, keys), keys);
}

/** The same with the signature checked on the thread pool, for a hot path. */
export async function readPassportAsync(
  token: string,
  keys: VerificationKeys,
): Promise<PassportReading> {
  return readClaims(await verifyJwsAsync(token, passportType, keys), keys);
}

function readClaims(jws: JwsResult, keys: VerificationKeys): PassportReading {
  if (!jws.ok) return { form: jws.problem, detail: jws.detail };
  // Team keys (ES256) sign other things; one that ended up among these keys signs no passport.
  if (keys.get(jws.kid)?.alg !== 'EdDSA') {
    return { form: 'signature_invalid', detail: 'a passport is signed with EdDSA only' };
  }
  const problem = claimsProblem(jws.payload);
  if (problem !== undefined) return { form: 'malformed', detail: problem };
  // claimsProblem looked at every member and its type.
  return { form: 'signed', claims: jws.payload as unknown as PassportClaims };
}
