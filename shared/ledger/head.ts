import { canonicalJson } from '../crypto/jcs.ts';
import { signDetached, verifyDetached } from '../crypto/jws.ts';
import type { SigningKey, VerificationKeys } from '../crypto/signing-key.ts';

/** Where a tenant's ledger ends, as each batch signs it. */
export interface LedgerHead {
  readonly tenant: string;
  readonly position: number;
  /** `sha256:<hex>` of the Merkle tree over all event hashes up to `position`. */
  readonly tree_root: string;
}

/** `typ` of a signed head: no signature made for another purpose passes for one. */
const headTyp = 'evidence-head+jws';

/** A detached JWS over the JCS form of the head. */
export function signHead(head: LedgerHead, key: SigningKey): string {
  return signDetached(headText(head), headTyp, key);
}

export function verifyHead(head: LedgerHead, jws: string, keys: VerificationKeys): boolean {
  return verifyDetached(jws, headText(head), headTyp, keys);
}

function headText({ tenant, position, tree_root }: LedgerHead): string {
  return canonicalJson({ position, tenant, tree_root });
}
