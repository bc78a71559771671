import type { VerificationKeys } from '../../crypto/signing-key.ts';
import type { Frontier } from '../merkle.ts';
import type { ChainStart } from './chain-check.ts';
import type { LedgerRow } from './row-check.ts';

/** A claim about the ledger up to a position. */
export interface Checkpoint {
  readonly position: number;
  /** `sha256:<hex>` */
  readonly treeRoot: string;
}

/** A batch's signed head. */
export interface Anchor extends Checkpoint {
  /** A detached JWS of the head; absent if the anchor is trusted by other means. */
  readonly jws?: string | undefined;
  /** The time of the latest event up to here, if stored with the head. */
  readonly latestMs?: number | undefined;
}

export interface ChainEnd {
  readonly chainId: string;
  readonly seq: number;
  readonly hash: string;
}

export interface LedgerEnd {
  /** The end that the ledger itself states; absent in an export without one. */
  readonly head?: { readonly position: number; readonly treeRoot: string } | undefined;
  readonly chainEnds: Iterable<ChainEnd>;
}

/** The state that an earlier verification reached; rows up to there are skipped. */
export interface VerifiedUpTo {
  /** The tree over the rows up to there; its size is the position. */
  readonly tree: Frontier;
  /** The time of the latest event up to there. */
  readonly latestMs: number;
}

export interface Verification {
  readonly tenantId: string;
  /** Active and retired keys of purpose `checkpoint`; if empty, signatures are not verified. */
  readonly keys: VerificationKeys;
  /** Undefined: verification starts at the first row. */
  readonly from?: VerifiedUpTo | undefined;
}

/** A stored checkpoint; undefined if it is not one of this tenant. */
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
