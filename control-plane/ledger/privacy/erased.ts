/** Chain of erasure events. */
export const privacyChain = 'privacy:erasures';

/**
 * Column values of an erased salt. The row stays, so that a sidecar that uploads the record again
 * does not restore the salt.
 */
export function erased(now: Date) {
  return { sealed: '', arguments: null, erasedAt: now };
}
