/** What the ledger said last of a row that was put in force: the row, or its tombstone, must exist. */
export interface LedgerVersion {
  readonly tenantId: string;
  readonly table:
    | ('kill_switch' | 'policy' | 'binding')
    | ('tool' | 'directory_user' | 'passport_revocation' | 'credential');
  /** Of a credential its id, because a removed one never returns under the same id. */
  readonly key: string;
  readonly chainId: string;
  readonly isEnded: boolean;
  /** Of a credential: the newest that was stored; 0 for other rows. */
  readonly version: number;
  /** The event that said so. */
  readonly eventId: string;
  readonly occurredAtMs: number;
}

interface KnownTenant {
  readonly position: number;
  readonly said: Map<string, LedgerVersion>;
}

/** What is known of each tenant's ledger from the rounds before. */
export type KnownLedgers = Map<string, KnownTenant>;
