import {
  type SigningKey,
  type VerificationKeys,
  verificationKeys,
} from '../../../shared/crypto/signing-key.ts';
import type { SigningKeys } from './signing-keys.ts';

/** Keys that sign and verify a tenant's sections. */
export interface SyncKeys {
  readonly signing: SigningKey;
  readonly verification: VerificationKeys;
  readonly passport: SigningKey;
}

/**
 * Returns the keys, and creates them for a new tenant. Call it before a transaction, never inside
 * one.
 */
export async function syncKeys(signingKeys: SigningKeys, tenantId: string): Promise<SyncKeys> {
  const passport = await signingKeys.active(tenantId, 'passport');
  const signing = await signingKeys.active(tenantId, 'sync');
  // Only the active key verifies, so sections signed by a retired key are rejected.
  const verification = verificationKeys([signing.publicJwk]);
  return { signing, verification, passport };
}
