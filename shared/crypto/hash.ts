import { hash } from 'node:crypto';

/**
 * `sha256:<hex>` of text (as UTF-8) or bytes: the form of every hash in API, ledger and policies.
 */
export function sha256(data: string | Uint8Array): string {
  return `sha256:${hash('sha256', data, 'hex')}`;
}

const blockBytes = 64;

/**
 * Computes the HMAC (RFC 2104) with SHA-256, as hex, over UTF-8 text; for keys of up to 64 bytes.
 * For a key that is used once, this is four times as fast as `createHmac`, which creates a key
 * object.
 */
export function hmacSha256(key: Uint8Array, text: string): string {
  if (key.length > blockBytes) throw new RangeError('the key is longer than a block');
  const inner = Buffer.allocUnsafe(blockBytes + Buffer.byteLength(text));
  const outer = Buffer.allocUnsafe(blockBytes + 32);
  for (let index = 0; index < blockBytes; index++) {
    const byte = key[index] ?? 0;
    inner[index] = byte ^ 0x36;
    outer[index] = byte ^ 0x5c;
  }
  inner.write(text, blockBytes);
  // Uses hex text, because allocating a buffer for each digest costs more than hashing.
  outer.write(hash('sha256', inner, 'hex'), blockBytes, 'hex');
  return hash('sha256', outer, 'hex');
}
