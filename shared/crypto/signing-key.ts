import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { z } from 'zod';

/** A public key as in a JWK Set (RFC 7517). */
export const publicJwk = z.object({
  kty: z.string(),
  crv: z.string(),
  x: z.string(),
  y: z.string().optional(),
  /** The thumbprint of the key (RFC 7638). */
  kid: z.string(),
  use: z.string().optional(),
  alg: z.string().optional(),
});
export type PublicJwk = Readonly<z.output<typeof publicJwk>>;

export type SigningAlgorithm = 'EdDSA' | 'ES256';

export interface SigningKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly privateKey: KeyObject;
  readonly publicJwk: PublicJwk;
}

export interface VerificationKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly publicKey: KeyObject;
}

/** Verification keys by `kid`. */
export type VerificationKeys = ReadonlyMap<string, VerificationKey>;

export function generateSigningKey(alg: SigningAlgorithm = 'EdDSA'): SigningKey {
  const { privateKey } =
    alg === 'EdDSA'
      ? generateKeyPairSync('ed25519')
      : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return toSigningKey(privateKey);
}

/** PKCS #8 DER of a private key, for the vault. */
export function exportPrivateKey(key: SigningKey): Buffer {
  return key.privateKey.export({ format: 'der', type: 'pkcs8' });
}

export function importPrivateKey(pkcs8: Buffer): SigningKey {
  return toSigningKey(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }));
}

/** Parses a stored public key; throws if the value is not a public key. */
export function parsePublicJwk(value: unknown): PublicJwk {
  const jwk = publicJwk.safeParse(value);
  if (jwk.success) return jwk.data;
  const members = jwk.error.issues.map(({ path }) => path.join('.') || 'the key');
  throw new TypeError(`a stored key is not a public JWK: invalid ${members.join(', ')}`);
}

/** Returns the verification key of a JWK. The `kid` is computed; a `kid` in the JWK is ignored. */
export function importPublicJwk(jwk: PublicJwk): VerificationKey {
  const publicKey = createPublicKey({ key: jwk as unknown as JsonWebKey, format: 'jwk' });
  return { kid: jwkThumbprint(jwk), alg: algorithmOf(jwk), publicKey };
}

export function verificationKeys(jwks: readonly PublicJwk[]): VerificationKeys {
  return new Map(jwks.map(importPublicJwk).map((key) => [key.kid, key]));
}

/** RFC 7638 thumbprint (RFC 8037 for OKP keys), base64url. */
export function jwkThumbprint(jwk: Omit<PublicJwk, 'kid'>): string {
  const members =
    jwk.y === undefined
      ? { crv: jwk.crv, kty: jwk.kty, x: jwk.x }
      : { crv: jwk.crv, kty: jwk.kty, x: jwk.x, y: jwk.y };
  return hash('sha256', JSON.stringify(members), 'base64url');
}

function toSigningKey(privateKey: KeyObject): SigningKey {
  const { kty = '', crv = '', x = '', y } = createPublicKey(privateKey).export({ format: 'jwk' });
  const bare = y === undefined ? { kty, crv, x } : { kty, crv, x, y };
  const alg = algorithmOf(bare);
  const kid = jwkThumbprint(bare);
  return { kid, alg, privateKey, publicJwk: { ...bare, kid, use: 'sig', alg } };
}

function algorithmOf(jwk: { readonly kty: string; readonly crv: string }): SigningAlgorithm {
  if (jwk.kty === 'OKP' && jwk.crv === 'Ed25519') return 'EdDSA';
  if (jwk.kty === 'EC' && jwk.crv === 'P-256') return 'ES256';
  throw new TypeError(`unsupported key type ${jwk.kty} ${jwk.crv}`);
}
