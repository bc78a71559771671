import type { JsonObject } from '../base/json.ts';
import type { RiskTier } from './action.ts';

export const approvalStatuses = [
  'approved',
  'pending_approval',
  'reapproval_required',
  'rejected',
] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** A registered tool as decisions see it. */
export interface ToolRecord {
  readonly name: string;
  /** Hash of the manifest that was registered last; `sha256:<hex>`. */
  readonly manifestHash: string;
  /** Hash of the manifest that a human approved, if any. */
  readonly approvedHash?: string | undefined;
  readonly approvalStatus: ApprovalStatus;
  readonly riskTier: RiskTier;
  /** The most significant `tool.*` code of the drift since approval. */
  readonly driftReason?: string | undefined;
  /**
   * Returns the problem with arguments that the approved `inputSchema` refuses, otherwise
   * undefined.
   */
  readonly validateArgs?: ((args: JsonObject) => string | undefined) | undefined;
}
