/** Chain of erasure events. */
export const privacyChain = 'privacy:erasures';

/**
 * Returns the column values of an erased salt. The row stays: if a sidecar uploads the record
 * again, the salt is not restored.
 */
export function erased(now: Date) {
  return { sealed: '', arguments: null, erasedAt: now };
}
