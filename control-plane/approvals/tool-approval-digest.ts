import { sha256 } from '../../shared/crypto/hash.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';

/** What an approval of kind `tool` binds to: this tenant's tool in this version and no other. */
export function toolApprovalDigest(tenantId: string, tool: string, manifestHash: string): string {
  return sha256(canonicalJson({ manifest_hash: manifestHash, tenant: tenantId, tool }));
}
