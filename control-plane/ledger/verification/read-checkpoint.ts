import type { PublicJwk } from '../../../shared/crypto/signing-key.ts';
import { openCheckpoint } from '../../../shared/ledger/checkpoint.ts';
import type { Checkpoint } from '../../../shared/ledger/verification/ledger-source.ts';

/**
 * Reads position and root from a checkpoint of a tenant's ledger. Returns undefined unless one of
 * the tenant's keys signed it. Ignores the installation name in the note, because the name may have
 * changed since.
 */
export function readCheckpoint(
  note: string,
  { tenantId, keys }: { readonly tenantId: string; readonly keys: readonly PublicJwk[] },
): Checkpoint | undefined {
  const head = openCheckpoint(note, keys)?.head;
  if (head === undefined) return undefined;
  if (!head.origin.endsWith(`/t/${encodeURIComponent(tenantId)}`)) return undefined;
  return { position: head.size, treeRoot: `sha256:${head.root.toString('hex')}` };
}
