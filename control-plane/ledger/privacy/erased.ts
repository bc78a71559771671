/** The chain of what was erased. */
export const privacyChain = 'privacy:erasures';

/**
 * What is left of a salt, as columns: the row stays, so that whoever sends the same record again,
 * a sidecar after a lost answer for one, does not bring the salt back.
 */
export function erased(now: Date) {
  return { sealed: '', arguments: null, erasedAt: now };
}
