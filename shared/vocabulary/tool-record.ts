import type { JsonObject } from '../base/json.ts';
import type { RiskTier } from './action.ts';

export const approvalStatuses = [
  'approved',
  'pending_approval',
  'reapproval_required',
  'rejected',
] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** A registered tool as a decision sees it. */
export interface ToolRecord {
  readonly name: string;
  /** Hash of the manifest registered last; `sha256:<hex>`. */
  readonly manifestHash: string;
  /** Hash of the manifest a human stands behind, if any. */
  readonly approvedHash?: string | undefined;
  readonly approvalStatus: ApprovalStatus;
  readonly riskTier: RiskTier;
  /** The most telling `tool.*` code of the drift since approval. */
  readonly driftReason?: string | undefined;
  /** Checks arguments against the approved `inputSchema`, compiled at sync; the text says what is wrong. */
  readonly validateArgs?: ((args: JsonObject) => string | undefined) | undefined;
}
