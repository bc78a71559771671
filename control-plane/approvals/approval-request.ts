import type { Action, RiskTier } from '../../shared/vocabulary/action.ts';
import type { ApprovalTerms } from '../../shared/vocabulary/verdict.ts';

export interface ApprovalRequest {
  readonly action: Action;
  readonly actionDigest: string;
  readonly terms: ApprovalTerms;
  readonly riskTier: RiskTier;
  readonly reasonCode: string;
  readonly summary: string;
  readonly matchedRules: readonly string[];
  readonly policyHash?: string | undefined;
  readonly manifestHash?: string | undefined;
  /** Whoever asks, and whoever counts as the same person: none of them decides on it. */
  readonly requestedBy: readonly string[];
  /** The sidecar that waits for it. */
  readonly sidecarId?: string | undefined;
  /** When the passport that came with the action was issued to its user, in ms since the epoch. */
  readonly authenticatedAtMs?: number | undefined;
}
