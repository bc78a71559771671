import type { JsonObject } from '../base/json.ts';

/**
 * A fact that the ledger records, so that it can be proved later. Field names are those of the API
 * and the ledger.
 */
export interface EvidenceEvent {
  /**
   * `ev_…`, assigned once by the recording program; sealing drops a second event with the same id
   * and bytes.
   */
  readonly id: string;
  /** For example `decision`, `execution.result`, `approval.decided`. */
  readonly type: string;
  readonly chain_id: string;
  /** RFC 3339, UTC, milliseconds. */
  readonly occurred_at: string;
  /** `control-plane`, or `sidecar:<id>`. */
  readonly source: string;
  readonly agent_id?: string | undefined;
  readonly user_id?: string | undefined;
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly decision?: string | undefined;
  readonly reason_code?: string | undefined;
  readonly data: JsonObject;
}

/** Members of an event that may be absent; all are text. */
export const optionalEventTexts = [
  'agent_id',
  'user_id',
  'tool',
  'resource',
  'decision',
  'reason_code',
] as const;

/** An event with its position in the ledger. */
export interface SealedEvent {
  readonly tenantId: string;
  /** Counts from 1 for each tenant, without gaps. */
  readonly position: number;
  readonly chainId: string;
  /** Counts from 1 for each chain, without gaps. */
  readonly seq: number;
  /** `sha256:` and 64 zeros for the first event of a chain. */
  readonly prevHash: string;
  readonly eventHash: string;
  /** The exact text that was hashed. */
  readonly canonical: string;
}

export const genesisHash = `sha256:${'0'.repeat(64)}`;
