import { createPublicKey, diffieHellman, generateKeyPairSync } from 'node:crypto';
import { jwkThumbprint, type PublicJwk } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** A public key as a sidecar sends it. */
export interface SentJwk {
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
}

/**
 * Encodings of Ed25519 points whose order divides 8, without the sign bit. Signatures under such a
 * key can be made without a private key. From libsodium (ge25519_has_small_order).
 */
const smallOrder: ReadonlySet<string> = new Set([
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
]);

/** Parses an Ed25519 signing key; its kid is the thumbprint computed here. */
export function readSigningKey(field: string, { kty, x }: SentJwk): PublicJwk {
  const bare = { kty, crv: 'Ed25519', x };
  publicKeyOf(field, bare);
  const bytes = Buffer.from(x, 'base64url');
  bytes[31] = (bytes[31] ?? 0) & 0x7f;
  if (smallOrder.has(bytes.toString('hex'))) throw lowOrder(field, bare.crv);
  return { ...bare, kid: jwkThumbprint(bare) };
}

/**
 * Parses an X25519 encryption key. A key of low order is refused, because its shared secret is
 * public (RFC 7748, section 6.1).
 */
export function readEncryptionKey(field: string, { kty, x }: SentJwk): PublicJwk {
  const bare = { kty, crv: 'X25519', x };
  const publicKey = publicKeyOf(field, bare);
  const { privateKey } = generateKeyPairSync('x25519');
  try {
    // OpenSSL throws if the shared secret is all zero.
    diffieHellman({ privateKey, publicKey });
  } catch {
    throw lowOrder(field, bare.crv);
  }
  return { ...bare, kid: jwkThumbprint(bare) };
}

function publicKeyOf(field: string, jwk: SentJwk) {
  try {
    return createPublicKey({ key: { ...jwk }, format: 'jwk' });
  } catch {
    throw new GatewayError('args.schema_invalid', {
      message: `${field}: is not an ${jwk.crv} public key.`,
    });
  }
}

function lowOrder(field: string, crv: string): GatewayError {
  return new GatewayError('args.schema_invalid', {
    message: `${field}: is an ${crv} point of low order, which protects nothing; generate a new key.`,
  });
}
