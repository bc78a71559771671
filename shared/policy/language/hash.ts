import { sha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import type { PolicyDefinition } from './definition.ts';

/** `sha256:<hex>` over the JCS form of the definition as submitted, no defaults added. */
export function policyHash(definition: PolicyDefinition): string {
  return sha256(canonicalJson(definition));
}

/** Hash over the sorted hashes of a published set; the order of policies does not matter. */
export function policySetHash(hashes: readonly string[]): string {
  return sha256(canonicalJson([...hashes].sort()));
}
