import type { LedgerHead } from './head.ts';

/**
 * The signed head that a tenant's ledger had after sealing a sidecar's records. The sidecar keeps
 * the newest acknowledgement and sends it with each upload. If the ledger no longer contains this
 * head, the ledger was restored from an older copy or rewritten.
 */
export interface LedgerAcknowledgement extends Omit<LedgerHead, 'tenant'> {
  /** A detached JWS of the head, so that no one can present a head that was never acknowledged. */
  readonly jws: string;
}
