import type { ProblemKind } from '../verification/problem.ts';
import type { ExportFilters, ExportFormat } from './statement.ts';

/**
 * What can be wrong with an export beside what can be wrong with a ledger:
 * `broken_off` it has no signed end; `altered` its bytes are not those that were signed;
 * `malformed` it is not written as exports are; `checkpoint_invalid` a checkpoint is not signed by
 * a key that is known, or is of another ledger; `proof_invalid` an event is not proved to be in the
 * ledger; `filter_mismatch` an event does not pass the filters that the export names;
 * `not_comparable` the checkpoint that was given says nothing about this export.
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
  /** Null where it is about the export as a whole. */
  readonly position: number | null;
  readonly chain_id: string | null;
  readonly message: string;
}

export interface ExportReport {
  /** Nothing is wrong with it. Whether that means anything, `trusted` says. */
  readonly ok: boolean;
  /** It is signed by a key that whoever asked trusts. */
  readonly trusted: boolean;
  /** Thumbprint of the key that signed it; null where no signature holds. */
  readonly signed_by: string | null;
  readonly tenant: string;
  readonly format: ExportFormat | null;
  readonly created_at: string;
  readonly filters: ExportFilters;
  /** It holds every event up to the checkpoint. */
  readonly complete: boolean;
  /** Events that were verified one by one; of anything but a JSON bundle, those that it holds. */
  readonly events: number;
  readonly chains: number;
  /** What the checkpoint in it says of the ledger, and who signed that. */
  readonly checkpoint: {
    readonly origin: string;
    readonly size: number;
    readonly root: string;
    readonly kid: string;
  } | null;
  /** It was held against a checkpoint from outside. */
  readonly anchored: boolean;
  /** The one to look at first. */
  readonly problem: ExportProblem | null;
  readonly problems: readonly ExportProblem[];
}

/** A problem of the export as a whole. */
export function wholeProblem(kind: ExportProblemKind, message: string): ExportProblem {
  return { kind, position: null, chain_id: null, message };
}
