import { hash } from 'node:crypto';

/** Where a sidecar's spool stands: the number of a record, and a hash over all up to it. */
export interface SpoolPosition {
  /** 0: before the first record. */
  readonly record: number;
  /** Hex; 64 zeros before the first record. */
  readonly hash: string;
}

/**
 * What a sidecar signs with its own key when it uploads records: that exactly these follow
 * `after` and end at `last`.
 */
export interface SpoolHead {
  readonly sidecar: string;
  readonly after: SpoolPosition;
  readonly last: SpoolPosition;
}
export const spoolHeadType = 'sallyport-spool+jws';

/** The hash of a record: over the hash of the one before and the record's exact text. */
export function spoolLinkHash(previous: string, line: string): string {
  return hash('sha256', `${previous}\n${line}`, 'hex');
}
