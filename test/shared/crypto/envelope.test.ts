import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decryptGcm,
  deriveKey,
  type Envelope,
  encryptGcm,
  openEnvelope,
  placeText,
  sealEnvelope,
} from '../../../shared/crypto/envelope.ts';

const place = { tenantId: 't1', purpose: 'credential', id: 'cred_1', version: 1 };
const wrapping = { id: 'kek_1', key: Buffer.alloc(32, 7) };
const secret = Buffer.from('hunter2');

describe('AES-256-GCM', () => {
  it('produces the ciphertext of the published test vector', () => {
    const { ct, tag } = encryptGcm(Buffer.alloc(32, 1), secret, {
      aad: '{"id":"cred_1","purpose":"credential","t":"t1","v":1}',
      iv: Buffer.alloc(12, 2),
    });
    expect([ct.toString('base64'), tag.toString('base64')]).toEqual([
      'b6OnPS8l8w==',
      '/O7T4SBv7iebKsaG6EO71A==',
    ]);
    expect(placeText(place)).toBe('{"id":"cred_1","purpose":"credential","t":"t1","v":1}');
  });

  it('refuses a shortened authentication tag', () => {
    const key = Buffer.alloc(32, 1);
    const { iv, ct, tag } = encryptGcm(key, secret, { aad: 'a' });
    expect(decryptGcm(key, { iv, ct, tag }, 'a')).toEqual(secret);
    expect(() => decryptGcm(key, { iv, ct, tag: tag.subarray(0, 12) }, 'a')).toThrow();
  });
});

describe('an envelope', () => {
  it('returns the sealed bytes when it is opened, for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const opened = openEnvelope(sealEnvelope(bytes, place, wrapping), place, wrapping);
        expect(opened.equals(bytes)).toBe(true);
      }),
    );
  });

  it.each([
    ['tenant', { ...place, tenantId: 't2' }],
    ['purpose', { ...place, purpose: 'sink' }],
    ['id', { ...place, id: 'cred_2' }],
    ['version', { ...place, version: 2 }],
  ])('cannot be opened with a different %s', (_what, elsewhere) => {
    const envelope = sealEnvelope(secret, place, wrapping);
    expect(() => openEnvelope(envelope, elsewhere, wrapping)).toThrow();
  });

  it('cannot be opened with a different master key, even if both master keys have the same name', () => {
    const envelope = sealEnvelope(secret, place, wrapping);
    expect(() => openEnvelope(envelope, place, { ...wrapping, id: 'kek_2' })).toThrow(
      'another master key',
    );
    expect(() => openEnvelope(envelope, place, { ...wrapping, key: randomBytes(32) })).toThrow();
  });

  it.each(['wrapped_dek', 'iv', 'ct', 'tag'] as const)(
    'cannot be opened if the field %s was changed',
    (field) => {
      const envelope = sealEnvelope(secret, place, wrapping);
      const bytes = Buffer.from(envelope[field], 'base64');
      bytes[0] = (bytes[0] ?? 0) ^ 1;
      const changed: Envelope = { ...envelope, [field]: bytes.toString('base64') };
      expect(() => openEnvelope(changed, place, wrapping)).toThrow();
    },
  );

  it('cannot be opened with the data key or the ciphertext of a different envelope', () => {
    const one = sealEnvelope(secret, place, wrapping);
    const other = sealEnvelope(secret, place, wrapping);
    expect(() =>
      openEnvelope({ ...one, wrapped_dek: other.wrapped_dek }, place, wrapping),
    ).toThrow();
  });

  it('differs from every other envelope of the same bytes', () => {
    const seen = Array.from({ length: 50 }, () => sealEnvelope(secret, place, wrapping));
    expect(new Set(seen.map(({ ct, iv }) => ct + iv)).size).toBe(50);
    expect(new Set(seen.map(({ wrapped_dek }) => wrapped_dek)).size).toBe(50);
  });
});

it('keys derived for two purposes are independent', () => {
  const master = randomBytes(32);
  expect(deriveKey(master, 'kek')).toHaveLength(32);
  expect(deriveKey(master, 'kek')).toEqual(deriveKey(master, 'kek'));
  expect(deriveKey(master, 'kek')).not.toEqual(deriveKey(master, 'mac/api_key'));
});
