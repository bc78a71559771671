import { isJsonObject, type JsonObject } from '../../../shared/base/json.ts';
import {
  sidecarTokenAudience,
  sidecarTokenSecondsMax,
  sidecarTokenType,
} from '../../../shared/contract/sidecar-token.ts';
import { verifyJwsAsync } from '../../../shared/crypto/jws.ts';
import { parsePublicJwk, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Platform } from '../platform.ts';
import { signedRows } from '../signed-store/signed-rows.ts';
import type { KeyHolder } from './key-directory.ts';

/** Maximum difference between the clocks of sidecar and control plane. */
const skewSeconds = 30;
const tokenLengthMax = 4_096;
const idForm = /^[0-9A-Za-z_-]{1,100}$/;

/**
 * Authenticates a sidecar by its token; throws an error with status 401 for an invalid token. `iss`
 * and `sub` must be the sidecar's id, `aud` must be the control plane, the lifetime must be at most
 * a minute, and the signature must be made with the sidecar's enrolled key. A token may be used for
 * several requests.
 */
export async function authenticateSidecar(
  { db, clock, guard }: Pick<Platform, 'db' | 'clock' | 'guard'>,
  token: string,
): Promise<KeyHolder> {
  const id = claimedId(token);
  if (id === undefined) throw refused('the token does not name a sidecar');
  const sidecar = await signedRows({ db, guard }, 'sidecar').findUnique({ where: { id } });
  if (sidecar === null) throw refused('no such sidecar');
  const keys = verificationKeys([parsePublicJwk(sidecar.signingJwk)]);
  const verified = await verifyJwsAsync(token, sidecarTokenType, keys);
  if (!verified.ok) throw refused(verified.detail);
  const problem = claimsProblem(verified.payload, id, Math.floor(clock.now() / 1000));
  if (problem !== undefined) throw refused(problem);
  if (sidecar.revokedAt !== null) throw new GatewayError('sidecar.revoked');
  return {
    kind: 'sidecar',
    tenantId: sidecar.tenantId,
    principal: `sidecar:${id}`,
    role: 'sidecar',
    scope: 'tenant',
    permissions: new Set(),
    agentId: sidecar.agentId,
    sidecarId: id,
  };
}

function refused(detail: string): GatewayError {
  return new GatewayError('auth.sidecar_required', {
    message: `The sidecar's token was refused: ${detail}.`,
  });
}

/** Returns the issuer of an unverified token. Use it only to find the verification key. */
function claimedId(token: string): string | undefined {
  const [, body = '', signature] = token.length <= tokenLengthMax ? token.split('.') : [];
  if (signature === undefined) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'));
    const iss = isJsonObject(claims) ? claims.iss : undefined;
    return typeof iss === 'string' && idForm.test(iss) ? iss : undefined;
  } catch {
    return undefined;
  }
}

function claimsProblem(claims: JsonObject, id: string, nowSeconds: number): string | undefined {
  const { iss, sub, aud, iat, exp, jti } = claims;
  if (iss !== id || sub !== id) return 'iss and sub must both be the sidecar';
  if (aud !== sidecarTokenAudience) return `aud must be ${sidecarTokenAudience}`;
  if (typeof jti !== 'string' || jti === '' || jti.length > 128) return 'jti is missing';
  if (!Number.isSafeInteger(iat) || !Number.isSafeInteger(exp)) return 'iat and exp are missing';
  const [issued, expires] = [Number(iat), Number(exp)];
  if (expires <= issued || expires - issued > sidecarTokenSecondsMax) {
    return `exp must be at most ${sidecarTokenSecondsMax} seconds after iat`;
  }
  if (issued > nowSeconds + skewSeconds) return 'it is from the future';
  return expires <= nowSeconds - skewSeconds ? 'it has expired' : undefined;
}
