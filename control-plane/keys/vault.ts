import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { deriveKey, openEnvelope, sealEnvelope } from '../../shared/crypto/envelope.ts';
import { GatewayError } from '../../shared/errors.ts';
import type { Vault } from '../services.ts';

const masterKeyBytes = 32;

const storedEnvelope = z.object({
  v: z.literal(1),
  kek_id: z.string(),
  wrapped_dek: z.string(),
  iv: z.string(),
  ct: z.string(),
  tag: z.string(),
});

/**
 * The vault over a master key of 32 bytes. The master key itself encrypts nothing: what wraps
 * and what authenticates is derived from it, a key per purpose.
 */
export function createVault(masterKey: Buffer): Vault {
  if (masterKey.length !== masterKeyBytes) {
    throw new TypeError(`the master key is ${masterKey.length} bytes, not ${masterKeyBytes}`);
  }
  const wrapping = {
    id: `kek_${deriveKey(masterKey, 'kek-id').toString('hex').slice(0, 16)}`,
    key: deriveKey(masterKey, 'kek'),
  };
  const macKeys = new Map<string, Buffer>();
  const macKey = (purpose: string): Buffer => {
    const key = macKeys.get(purpose) ?? deriveKey(masterKey, `mac/${purpose}`);
    macKeys.set(purpose, key);
    return key;
  };
  return {
    seal: (plaintext, place) =>
      JSON.stringify(
        sealEnvelope(
          typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext,
          place,
          wrapping,
        ),
      ),
    open: (sealed, place) => {
      try {
        return openEnvelope(storedEnvelope.parse(JSON.parse(sealed)), place, wrapping);
      } catch (cause) {
        throw new GatewayError('credential.unreadable', { cause });
      }
    },
    mac: (purpose, data) => createHmac('sha256', macKey(purpose)).update(data).digest('hex'),
  };
}
