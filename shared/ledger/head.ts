import { canonicalJson } from '../crypto/jcs.ts';
import { signDetached, verifyDetached } from '../crypto/jws.ts';
import type { SigningKey, VerificationKeys } from '../crypto/signing-key.ts';

/** Position and tree root of a tenant's ledger, signed with each batch. */
export interface LedgerHead {
  readonly tenant: string;
  readonly position: number;
  /** `sha256:<hex>` of the Merkle tree over all event hashes up to `position`. */
  readonly tree_root: string;
}

/** `typ` of a signed head, so that the signature is not valid for another kind of object. */
const headTyp = 'evidence-head+jws';

/** Signs the JCS form of the head as a detached JWS. */
export function signHead(head: LedgerHead, key: SigningKey): string {
  return signDetached(headText(head), headTyp, key);
}

export function verifyHead(head: LedgerHead, jws: string, keys: VerificationKeys): boolean {
  return verifyDetached(jws, headText(head), headTyp, keys);
}

function headText({ tenant, position, tree_root }: LedgerHead): string {
  return canonicalJson({ position, tenant, tree_root });
}
