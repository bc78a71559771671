import { sha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import type { PolicyDefinition } from './definition.ts';

/** `sha256:<hex>` over the JCS form of the definition as submitted, without defaults. */
export function policyHash(definition: PolicyDefinition): string {
  return sha256(canonicalJson(definition));
}

/** Hash over the sorted hashes of a published set, independent of the order of policies. */
export function policySetHash(hashes: readonly string[]): string {
  return sha256(canonicalJson([...hashes].sort()));
}
