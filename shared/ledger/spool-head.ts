import { hash } from 'node:crypto';

/**
 * A position in a sidecar's spool: the number of a record, and a hash over all records up to it.
 */
export interface SpoolPosition {
  /** 0 is the position before the first record. */
  readonly record: number;
  /** Hex; 64 zeros before the first record. */
  readonly hash: string;
}

/**
 * The statement that a sidecar signs with its own key when it uploads records: exactly these
 * records follow `after` and end at `last`.
 */
export interface SpoolHead {
  readonly sidecar: string;
  readonly after: SpoolPosition;
  readonly last: SpoolPosition;
}
export const spoolHeadType = 'sallyport-spool+jws';

/** The hash of a record: over the previous record's hash and the record's exact text. */
export function spoolLinkHash(previous: string, line: string): string {
  return hash('sha256', `${previous}\n${line}`, 'hex');
}
