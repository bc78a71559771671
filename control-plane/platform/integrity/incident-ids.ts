import { sha256 } from '../../../shared/crypto/hash.ts';

/** Chain of rows that failed their integrity check. */
export const integrityChain = 'integrity:rows';

/** The id of an event that is the same whenever and wherever the same thing is found. */
export function derivedId(from: string): string {
  return `ev_${sha256(from).slice('sha256:'.length, 'sha256:'.length + 32)}`;
}
