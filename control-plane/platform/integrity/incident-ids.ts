import { sha256 } from '../../../shared/crypto/hash.ts';

/** Chain of the events about rows that failed their integrity check. */
export const integrityChain = 'integrity:rows';

/**
 * Derives an event id from its cause, so that repeated findings of the same cause have the same id.
 */
export function derivedId(from: string): string {
  return `ev_${sha256(from).slice('sha256:'.length, 'sha256:'.length + 32)}`;
}
