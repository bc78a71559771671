/**
 * The last state that the ledger records for a row that an event activated, such as a published
 * policy. The row or its tombstone must exist.
 */
export interface LedgerVersion {
  readonly tenantId: string;
  readonly table:
    | ('kill_switch' | 'policy' | 'binding')
    | ('tool' | 'directory_user' | 'passport_revocation' | 'credential');
  /**
   * Key of the row. For a credential its id, because the id of a removed credential is never
   * reused.
   */
  readonly key: string;
  readonly chainId: string;
  readonly isEnded: boolean;
  /** For a credential, the newest version that was stored; 0 for other rows. */
  readonly version: number;
  /** The event that recorded this state. */
  readonly eventId: string;
  readonly occurredAtMs: number;
}

interface KnownTenant {
  readonly position: number;
  readonly said: Map<string, LedgerVersion>;
}

/** State of each tenant's ledger, as read in the earlier rounds. */
export type KnownLedgers = Map<string, KnownTenant>;
