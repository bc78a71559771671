import type { Mode, RiskTier } from './action.ts';
import type { GrantLimits } from './grant-terms.ts';

export const decisions = [
  'allow',
  'deny',
  'warn',
  'require_approval',
  'require_tool_reapproval',
] as const;
export type Decision = (typeof decisions)[number];

/** The terms of a human decision: the combined `approval` of all matching rules. */
export interface ApprovalTerms {
  readonly channels: readonly string[];
  readonly minRole: string;
  readonly quorum: number;
  /** Undefined: the tenant's own window. */
  readonly slaSeconds?: number | undefined;
  /** Limits of a standing grant; undefined allows a single call only. */
  readonly grant?: GrantLimits | undefined;
}

/** Values of one call, or sums over several calls, by their path below `args`. */
export type Sums = Readonly<Record<string, number>>;

/** Side effects that the caller of `decide` must execute; `decide` itself is pure. */
export type Effect =
  | {
      readonly kind: 'claim_passport';
      readonly jti: string;
      readonly expiresAtMs: number;
      readonly durable: boolean;
    }
  | { readonly kind: 'open_approval'; readonly terms: ApprovalTerms }
  /**
   * For a call that may proceed and whose tool has a budget: the caller of `decide` counts it in
   * the same tick.
   */
  | { readonly kind: 'count_usage'; readonly sums: Sums }
  | { readonly kind: 'spend_approval'; readonly approvalId: number; readonly eventHash: string };

/**
 * Facts that policies read in addition to the action. Evidence may store them, so that a stored
 * decision can be evaluated again. They never include argument values or a person's address.
 */
export interface SeenFacts {
  readonly agentName?: string | undefined;
  /** True if the goal is the agent's registered goal, not one that the agent stated. */
  readonly isGoalRegistered: boolean;
  readonly userRole?: string | undefined;
  /** True if the passport was bound to an approval. */
  readonly isApprovalBound: boolean;
}

/** The outcome of one decision; response, evidence and log are built from it. */
export interface Verdict {
  readonly decision: Decision;
  readonly reasonCode: string;
  readonly summary: string;
  readonly mode: Mode;
  /** False if a refusal is only reported (modes `monitor` and `warn`). */
  readonly enforced: boolean;
  /** `<definition id>/<rule name>` of every matching rule that took effect. */
  readonly matchedRules: readonly string[];
  /** Matching rules of `monitor` policies, with the decision they would have made. */
  readonly observed: readonly {
    readonly rule: string;
    readonly decision: string;
    readonly reason: string;
  }[];
  readonly riskTier: RiskTier;
  readonly toolManifestHash?: string | undefined;
  readonly policyHash?: string | undefined;
  readonly nextSteps: readonly string[];
  /**
   * For an exhausted budget: when the same call would be allowed if no other calls are counted
   * until then.
   */
  readonly resetsAtMs?: number | undefined;
  readonly effects: readonly Effect[];
  /** `jti` of the signed passport that the verdict is based on, if any. */
  readonly passportJti?: string | undefined;
  /** Undefined if no policy state was available. */
  readonly seen?: SeenFacts | undefined;
}

/** True if the call may be performed: allowed, warned about, or refused without enforcement. */
export function mayProceed(verdict: Verdict): boolean {
  return verdict.decision === 'allow' || verdict.decision === 'warn' || !verdict.enforced;
}
