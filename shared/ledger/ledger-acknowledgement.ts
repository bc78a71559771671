import type { LedgerHead } from './head.ts';

/**
 * Where a tenant's ledger stood when it had sealed a sidecar's records, as its batch signed it.
 * The sidecar keeps the newest one and shows it with each upload: a ledger that does not hold it
 * any more was restored from an older copy, or rewritten.
 */
export interface LedgerAcknowledgement extends Omit<LedgerHead, 'tenant'> {
  /** A detached JWS of the head: nobody can show what was never acknowledged. */
  readonly jws: string;
}
