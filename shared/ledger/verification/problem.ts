/**
 * What can be wrong with a ledger:
 * `content_mismatch` a row's text, or a column that repeats it, is not what was sealed;
 * `hash_mismatch` a row's own hash was altered, its text was not;
 * `link_broken` a row names another predecessor than the one before it in its chain;
 * `gap` rows are missing in the middle; `truncated` rows are missing at the end;
 * `reordered` a row stands in another place than it was sealed at;
 * `inserted` a row stands where the ledger's head says there is none;
 * `head_mismatch` the rows fit together, and are not those that were sealed: tree root or chain head differ;
 * `rewritten` the rows fit together and are signed, and are not those that a checkpoint covers;
 * `rolled_back` the ledger ends before a checkpoint of it, as after an older copy was restored;
 * `signature_invalid` a head is not signed by a key of the tenant; `unsigned` the last rows have no signed head.
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
  /** Null where the chain of what is missing cannot be told. */
  readonly chain_id: string | null;
  readonly message: string;
}

export interface VerificationReport {
  readonly ok: boolean;
  /** Rows read. */
  readonly events: number;
  readonly chains: number;
  /** Signed heads that were compared with the rows, and how many signatures were verified. */
  readonly heads: number;
  /** Checkpoints that were compared with the rows: those kept beside the ledger, and those given. */
  readonly checkpoints: number;
  readonly signatures: number;
  /** The last position, and the root over all rows as computed. */
  readonly position: number;
  readonly tree_root: string;
  /** The one at the lowest position. */
  readonly problem: Problem | null;
  /** The first of each chain, by position, at most 100. */
  readonly problems: readonly Problem[];
}
