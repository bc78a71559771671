import type { VerificationKeys } from '../../crypto/signing-key.ts';
import type { Frontier } from '../merkle.ts';
import type { ChainStart } from './chain-check.ts';
import type { LedgerRow } from './row-check.ts';

/** What was said about the ledger up to a position. */
export interface Checkpoint {
  readonly position: number;
  /** `sha256:<hex>` */
  readonly treeRoot: string;
}

/** A batch's signed head. */
export interface Anchor extends Checkpoint {
  /** A detached JWS of the head; absent where the anchor was trusted by other means. */
  readonly jws?: string | undefined;
  /** When the latest event up to here occurred, where that is kept beside the head. */
  readonly latestMs?: number | undefined;
}

export interface ChainEnd {
  readonly chainId: string;
  readonly seq: number;
  readonly hash: string;
}

export interface LedgerEnd {
  /** What the ledger itself says of its end; absent in an export without one. */
  readonly head?: { readonly position: number; readonly treeRoot: string } | undefined;
  readonly chainEnds: Iterable<ChainEnd>;
}

/** What an earlier verification reached: the rows up to there are not read again. */
export interface VerifiedUpTo {
  /** Over the rows up to there; its size is the position. */
  readonly tree: Frontier;
  /** When the latest event up to there occurred. */
  readonly latestMs: number;
}

export interface Verification {
  readonly tenantId: string;
  /** Keys of the purpose `checkpoint`, active and retired; empty: signatures are not looked at. */
  readonly keys: VerificationKeys;
  /** Undefined: from the first row. */
  readonly from?: VerifiedUpTo | undefined;
}

/** A checkpoint that was kept beside the ledger; undefined where it is none of this tenant. */
export interface StoredCheckpoint {
  readonly position: number;
  readonly checkpoint: Checkpoint | undefined;
}

/** A stretch of the ledger: its rows, and what was said about positions in it, all in order. */
export interface LedgerPage {
  readonly rows: readonly LedgerRow[];
  readonly anchors: readonly Anchor[];
  readonly checkpoints?: readonly StoredCheckpoint[] | undefined;
  /** Where chains stood that first come up in this page, when reading began behind their first row. */
  readonly starts?: readonly ChainStart[] | undefined;
}
