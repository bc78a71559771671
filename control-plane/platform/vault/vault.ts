import { z } from 'zod';
import {
  deriveKey,
  type Envelope,
  openEnvelope,
  rewrapEnvelope,
  sealEnvelope,
  type WrappingKey,
} from '../../../shared/crypto/envelope.ts';
import { hmacSha256 } from '../../../shared/crypto/hash.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

import { Keyring } from './keyring.ts';

/**
 * Context to which a ciphertext is bound. The ciphertext cannot be decrypted with another place.
 */
export interface SealedPlace {
  readonly tenantId: string;
  /** For example `credential`, `approval_args`, `signing_key`, `evidence_salt`. */
  readonly purpose: string;
  readonly id: string;
  readonly version: number;
}

/** Protects secrets at rest with envelope encryption under the master key (design 10). */
export interface Vault {
  /** Encrypts a secret. The result is JSON text for a database column. */
  seal(plaintext: string | Uint8Array, place: SealedPlace): string;
  /** Decrypts a secret; throws `credential.unreadable`. */
  open(sealed: string, place: SealedPlace): Buffer;
  /** Computes a keyed hash in hex, with a key that is derived for this purpose only. */
  mac(purpose: string, data: string): string;
}

const storedEnvelope = z.object({
  v: z.literal(1),
  kek_id: z.string(),
  wrapped_dek: z.string(),
  iv: z.string(),
  ct: z.string(),
  tag: z.string(),
});

/**
 * Keys of a vault: the keyring wraps data keys, and the keys of keyed hashes are derived from the
 * root.
 */
export interface VaultKeys {
  readonly keyring: Keyring;
  /** 32 bytes. The root outlives master keys, so that hashes of API keys stay valid. */
  readonly root: Buffer;
}

/**
 * Creates a vault from its keys. If only a master key is given, this key is also the root.
 * Encryption and MACs use only keys that are derived for a single purpose.
 */
export function createVault(given: Buffer | VaultKeys): Vault {
  const { keyring, root } = Buffer.isBuffer(given)
    ? { keyring: new Keyring(given), root: given }
    : given;
  const macKeys = new Map<string, Buffer>();
  const macKey = (purpose: string): Buffer => {
    const key = macKeys.get(purpose) ?? deriveKey(root, `mac/${purpose}`);
    macKeys.set(purpose, key);
    return key;
  };
  return {
    seal: (plaintext, place) =>
      JSON.stringify(
        sealEnvelope(
          typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext,
          place,
          keyring.active,
        ),
      ),
    open: (sealed, place) => {
      try {
        const envelope = readEnvelope(sealed);
        return openEnvelope(envelope, place, wrapperOf(keyring, envelope));
      } catch (cause) {
        throw new GatewayError('credential.unreadable', { cause });
      }
    },
    mac: (purpose, data) => hmacSha256(macKey(purpose), data),
  };
}

/**
 * Wraps the data key of a stored secret with the active key, and returns the secret's new stored
 * form. `id` is the id in the secret's place. Throws `credential.unreadable` if no known key
 * wrapped the secret.
 */
export function rewrap(keyring: Keyring, sealed: string, id: string): string {
  try {
    const envelope = readEnvelope(sealed);
    const from = wrapperOf(keyring, envelope);
    return JSON.stringify(rewrapEnvelope(envelope, id, { from, to: keyring.active }));
  } catch (cause) {
    throw new GatewayError('credential.unreadable', { cause });
  }
}

/** Returns the id of the key that wrapped a stored secret. */
export function wrappedBy(sealed: string): string {
  return readEnvelope(sealed).kek_id;
}

function readEnvelope(sealed: string): Envelope {
  return storedEnvelope.parse(JSON.parse(sealed));
}

function wrapperOf(keyring: Keyring, { kek_id: id }: Envelope): WrappingKey {
  const wrapping = keyring.find(id);
  if (wrapping === undefined) throw new TypeError('the secret is sealed under another master key');
  return wrapping;
}
