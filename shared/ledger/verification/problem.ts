/**
 * The kinds of ledger problem:
 * `content_mismatch` a row's text, or a column that repeats it, is not what was sealed;
 * `hash_mismatch` a row's stored hash was altered, its text was not;
 * `link_broken` a row's `prev_hash` is not the hash of the preceding row in its chain;
 * `gap` rows are missing in the middle; `truncated` rows are missing at the end;
 * `reordered` a row is not at the position at which it was sealed;
 * `inserted` a row is at a position beyond the ledger's head;
 * `head_mismatch` the rows are consistent, but differ from those that were sealed: tree root or
 * chain head differ;
 * `rewritten` the rows are consistent and signed, but differ from those that a checkpoint covers;
 * `rolled_back` the ledger ends before one of its checkpoints, as after an older copy was restored;
 * `signature_invalid` a head is not signed by a key of the tenant; `unsigned` the last rows have no
 * signed head.
 */
export const problemKinds = [
  'content_mismatch',
  'hash_mismatch',
  'link_broken',
  'gap',
  'truncated',
  'reordered',
  'inserted',
  'head_mismatch',
  'rewritten',
  'rolled_back',
  'signature_invalid',
  'unsigned',
] as const;
export type ProblemKind = (typeof problemKinds)[number];

export interface Problem {
  readonly kind: ProblemKind;
  readonly position: number;
  /** Null if the chain of the missing rows is unknown. */
  readonly chain_id: string | null;
  readonly message: string;
}

export interface VerificationReport {
  readonly ok: boolean;
  /** Number of rows read. */
  readonly events: number;
  readonly chains: number;
  /**
   * Number of signed heads that were compared with the rows; `signatures` counts those verified.
   */
  readonly heads: number;
  /**
   * Number of checkpoints that were compared with the rows: stored ones, and those from the caller.
   */
  readonly checkpoints: number;
  readonly signatures: number;
  /** The last position; `tree_root` is the root computed over all rows. */
  readonly position: number;
  readonly tree_root: string;
  /** The problem at the lowest position. */
  readonly problem: Problem | null;
  /** The first problem of each chain, sorted by position; at most 100. */
  readonly problems: readonly Problem[];
}
