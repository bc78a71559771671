import type { ProblemKind } from '../verification/problem.ts';
import type { ExportFilters, ExportFormat } from './statement.ts';

/**
 * The kinds of export problem in addition to those of a ledger: `broken_off` the export has no
 * signed end; `altered` its bytes differ from the signed ones; `malformed` it does not have the
 * export format; `checkpoint_invalid` a checkpoint is not signed by a known key, or belongs to
 * another ledger; `proof_invalid` no proof shows that an event is in the ledger; `filter_mismatch`
 * an event does not match the filters that the export names; `not_comparable` the supplied
 * checkpoint cannot be compared with this export.
 */
export type ExportProblemKind =
  | ProblemKind
  | 'broken_off'
  | 'altered'
  | 'malformed'
  | 'checkpoint_invalid'
  | 'proof_invalid'
  | 'filter_mismatch'
  | 'not_comparable';

export interface ExportProblem {
  readonly kind: ExportProblemKind;
  /** Null if the problem concerns the whole export. */
  readonly position: number | null;
  readonly chain_id: string | null;
  readonly message: string;
}

export interface ExportReport {
  /** True if no problem was found. `trusted` states whether the signing key is trusted. */
  readonly ok: boolean;
  /** True if the caller trusts the signing key. */
  readonly trusted: boolean;
  /** Thumbprint of the signing key; null if no signature is valid. */
  readonly signed_by: string | null;
  readonly tenant: string;
  readonly format: ExportFormat | null;
  readonly created_at: string;
  readonly filters: ExportFilters;
  /** True if the export contains every event up to the checkpoint. */
  readonly complete: boolean;
  /**
   * Number of events verified one by one; for formats other than JSON, the number of events in the
   * export.
   */
  readonly events: number;
  readonly chains: number;
  /** The ledger state in the export's checkpoint, and the checkpoint's signer. */
  readonly checkpoint: {
    readonly origin: string;
    readonly size: number;
    readonly root: string;
    readonly kid: string;
  } | null;
  /** True if the export was compared with a checkpoint that the caller supplied. */
  readonly anchored: boolean;
  /** The most significant problem. */
  readonly problem: ExportProblem | null;
  readonly problems: readonly ExportProblem[];
}

/** Returns a problem that concerns the whole export. */
export function wholeProblem(kind: ExportProblemKind, message: string): ExportProblem {
  return { kind, position: null, chain_id: null, message };
}
