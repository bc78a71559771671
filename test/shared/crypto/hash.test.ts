import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hmacSha256 } from '../../../shared/crypto/hash.ts';

describe('hmacSha256', () => {
  it('returns the same HMAC as OpenSSL for keys up to the block size', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 64 }),
        fc.string({ unit: 'binary', maxLength: 300 }),
        (key, text) => {
          expect(hmacSha256(key, text)).toBe(createHmac('sha256', key).update(text).digest('hex'));
        },
      ),
    );
  });

  it('refuses a key longer than the block size, which would have to be hashed first', () => {
    expect(() => hmacSha256(new Uint8Array(65), '')).toThrow(RangeError);
  });
});
