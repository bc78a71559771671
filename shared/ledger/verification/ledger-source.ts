import type { VerificationKeys } from '../../crypto/signing-key.ts';
import type { Frontier } from '../merkle.ts';
import type { ChainStart } from './chain-check.ts';
import type { LedgerRow } from './row-check.ts';

/** The tree root that is claimed for the ledger up to a position. */
export interface Checkpoint {
  readonly position: number;
  /** `sha256:<hex>` */
  readonly treeRoot: string;
}

/** A batch's signed head. */
export interface Anchor extends Checkpoint {
  /** A detached JWS of the head; absent if the anchor is trusted by other means. */
  readonly jws?: string | undefined;
  /** The time of the latest event up to this position, if stored with the head. */
  readonly latestMs?: number | undefined;
}

export interface ChainEnd {
  readonly chainId: string;
  readonly seq: number;
  readonly hash: string;
}

export interface LedgerEnd {
  /** The head that the ledger itself states; absent in an export without a head. */
  readonly head?: { readonly position: number; readonly treeRoot: string } | undefined;
  readonly chainEnds: Iterable<ChainEnd>;
}

/** State at the end of an earlier verification. The rows that it verified are skipped. */
export interface VerifiedUpTo {
  /** The tree over the verified rows; its size is the position of the last verified row. */
  readonly tree: Frontier;
  /** The time of the latest verified event. */
  readonly latestMs: number;
}

export interface Verification {
  readonly tenantId: string;
  /** Active and retired keys of purpose `checkpoint`; if empty, signatures are not verified. */
  readonly keys: VerificationKeys;
  /** Undefined: verification starts at the first row. */
  readonly from?: VerifiedUpTo | undefined;
}

/**
 * A stored checkpoint. `checkpoint` is undefined if the stored text is unreadable or not signed by
 * this tenant.
 */
export interface StoredCheckpoint {
  readonly position: number;
  readonly checkpoint: Checkpoint | undefined;
}

/** A range of the ledger: its rows, anchors and checkpoints, each in order. */
export interface LedgerPage {
  readonly rows: readonly LedgerRow[];
  readonly anchors: readonly Anchor[];
  readonly checkpoints?: readonly StoredCheckpoint[] | undefined;
  /**
   * The state of chains that first appear in this page, if verification started after their first
   * row.
   */
  readonly starts?: readonly ChainStart[] | undefined;
}
