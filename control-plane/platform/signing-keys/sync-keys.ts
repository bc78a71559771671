import {
  type SigningKey,
  type VerificationKeys,
  verificationKeys,
} from '../../../shared/crypto/signing-key.ts';
import type { SigningKeys } from './signing-keys.ts';

/** The keys that a tenant's sections are made and judged with. */
export interface SyncKeys {
  readonly signing: SigningKey;
  readonly verification: VerificationKeys;
  readonly passport: SigningKey;
}

/** Asked for before a transaction, never inside one; makes what a new tenant does not have yet. */
export async function syncKeys(signingKeys: SigningKeys, tenantId: string): Promise<SyncKeys> {
  const passport = await signingKeys.active(tenantId, 'passport');
  const signing = await signingKeys.active(tenantId, 'sync');
  // Of this key alone: what a retired one signed is not ours any more, whoever put it on the bus.
  const verification = verificationKeys([signing.publicJwk]);
  return { signing, verification, passport };
}
