import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  randomBytes,
} from 'node:crypto';
import { canonicalJson } from './jcs.ts';

const keyBytes = 32;
const ivBytes = 12;
const tagBytes = 16;

/**
 * The row that a secret belongs to. The place is bound into the ciphertext, so that a secret moved
 * to another row does not decrypt.
 */
interface EnvelopePlace {
  readonly tenantId: string;
  readonly purpose: string;
  readonly id: string;
  readonly version: number;
}

/** The key that encrypts data keys. */
export interface WrappingKey {
  readonly id: string;
  readonly key: Buffer;
}

/** A secret encrypted with its own data key, which is encrypted with the wrapping key. */
export interface Envelope {
  readonly v: 1;
  readonly kek_id: string;
  /** The encrypted data key: base64 of nonce, ciphertext and tag. */
  readonly wrapped_dek: string;
  readonly iv: string;
  readonly ct: string;
  readonly tag: string;
}

interface Encrypted {
  readonly iv: Buffer;
  readonly ct: Buffer;
  readonly tag: Buffer;
}

// Keys are passed as key objects, because Node takes four times as long with raw bytes.

/** Encrypts with AES-256-GCM and a 96-bit nonce, which is random unless it is given. */
export function encryptGcm(
  key: Buffer,
  plaintext: Uint8Array,
  { aad, iv = randomBytes(ivBytes) }: { readonly aad: string; readonly iv?: Buffer },
): Encrypted {
  const cipher = createCipheriv('aes-256-gcm', createSecretKey(key), iv, {
    authTagLength: tagBytes,
  });
  cipher.setAAD(Buffer.from(aad, 'utf8'));
  const ct = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return { iv, ct, tag: cipher.getAuthTag() };
}

/**
 * Decrypts. Throws if key, nonce, associated data, ciphertext or tag differ from those of the
 * encryption.
 */
export function decryptGcm(key: Buffer, { iv, ct, tag }: Encrypted, aad: string): Buffer {
  // Without this check, Node would accept a shorter tag.
  if (tag.length !== tagBytes || iv.length !== ivBytes) throw new TypeError('not a GCM ciphertext');
  const decipher = createDecipheriv('aes-256-gcm', createSecretKey(key), iv, {
    authTagLength: tagBytes,
  });
  decipher.setAAD(Buffer.from(aad, 'utf8'));
  decipher.setAuthTag(tag);
  return Buffer.concat([decipher.update(ct), decipher.final()]);
}

/** The associated data of a secret: the JCS form of its place. */
export function placeText({ tenantId, purpose, id, version }: EnvelopePlace): string {
  return canonicalJson({ id, purpose, t: tenantId, v: version });
}

const wrapText = (kekId: string, id: string): string => canonicalJson({ id, kek_id: kekId });

/** Encrypts a secret under a new data key. */
export function sealEnvelope(
  plaintext: Uint8Array,
  place: EnvelopePlace,
  wrapping: WrappingKey,
): Envelope {
  const dataKey = randomBytes(keyBytes);
  const wrapped = wrapDataKey(dataKey, place.id, wrapping);
  const { iv, ct, tag } = encryptGcm(dataKey, plaintext, { aad: placeText(place) });
  dataKey.fill(0);
  return {
    v: 1,
    kek_id: wrapping.id,
    wrapped_dek: wrapped,
    iv: iv.toString('base64'),
    ct: ct.toString('base64'),
    tag: tag.toString('base64'),
  };
}

/** Decrypts an envelope. Throws if place or key differ from those used for encryption. */
export function openEnvelope(
  envelope: Envelope,
  place: EnvelopePlace,
  wrapping: WrappingKey,
): Buffer {
  const dataKey = unwrapDataKey(envelope, place.id, wrapping);
  const opened = decryptGcm(
    dataKey,
    {
      iv: Buffer.from(envelope.iv, 'base64'),
      ct: Buffer.from(envelope.ct, 'base64'),
      tag: Buffer.from(envelope.tag, 'base64'),
    },
    placeText(place),
  );
  dataKey.fill(0);
  return opened;
}

/**
 * Encrypts the data key under another wrapping key; the secret's ciphertext is unchanged. `id` is
 * the `id` of the envelope's place.
 */
export function rewrapEnvelope(
  envelope: Envelope,
  id: string,
  { from, to }: { readonly from: WrappingKey; readonly to: WrappingKey },
): Envelope {
  const dataKey = unwrapDataKey(envelope, id, from);
  const wrapped = wrapDataKey(dataKey, id, to);
  dataKey.fill(0);
  return { ...envelope, kek_id: to.id, wrapped_dek: wrapped };
}

function wrapDataKey(dataKey: Buffer, id: string, wrapping: WrappingKey): string {
  const { iv, ct, tag } = encryptGcm(wrapping.key, dataKey, { aad: wrapText(wrapping.id, id) });
  return Buffer.concat([iv, ct, tag]).toString('base64');
}

function unwrapDataKey(envelope: Envelope, id: string, wrapping: WrappingKey): Buffer {
  if (envelope.v !== 1) throw new TypeError('unknown envelope version');
  if (envelope.kek_id !== wrapping.id) throw new TypeError('sealed under another master key');
  const wrapped = Buffer.from(envelope.wrapped_dek, 'base64');
  return decryptGcm(
    wrapping.key,
    {
      iv: wrapped.subarray(0, ivBytes),
      ct: wrapped.subarray(ivBytes, -tagBytes),
      tag: wrapped.subarray(-tagBytes),
    },
    wrapText(wrapping.id, id),
  );
}

/** Derives a 32-byte key for one purpose (HKDF-SHA-256, RFC 5869); derived keys are independent. */
export function deriveKey(masterKey: Buffer, purpose: string): Buffer {
  return Buffer.from(
    hkdfSync('sha256', masterKey, Buffer.alloc(0), `sallyport/v1/${purpose}`, keyBytes),
  );
}
