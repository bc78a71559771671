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

/** What a human decision must satisfy; the sum of the `approval` of all matching rules. */
export interface ApprovalTerms {
  readonly channels: readonly string[];
  readonly minRole: string;
  readonly quorum: number;
  /** Undefined: the tenant's own window. */
  readonly slaSeconds?: number | undefined;
  /** How far a standing grant may reach; undefined: one call, and no more. */
  readonly grant?: GrantLimits | undefined;
}

/** Values of one call, or of many, added up; by their path below `args`. */
export type Sums = Readonly<Record<string, number>>;

/** What the caller of `decide` must carry out; `decide` itself changes nothing. */
export type Effect =
  | {
      readonly kind: 'claim_passport';
      readonly jti: string;
      readonly expiresAtMs: number;
      readonly durable: boolean;
    }
  | { readonly kind: 'open_approval'; readonly terms: ApprovalTerms }
  /** The call goes through and a budget asks for it: it counts from now on, in the same tick. */
  | { readonly kind: 'count_usage'; readonly sums: Sums }
  | { readonly kind: 'spend_approval'; readonly approvalId: number; readonly eventHash: string };

/**
 * What policies saw beside the action, as far as evidence may keep it: with it a stored decision can
 * be judged again. Never values of arguments, never an address of a person.
 */
export interface SeenFacts {
  readonly agentName?: string | undefined;
  /** The goal was the one that the agent is registered for, not the one it stated. */
  readonly isGoalRegistered: boolean;
  readonly userRole?: string | undefined;
  /** The passport was bound to an approval. */
  readonly isApprovalBound: boolean;
}

/** The outcome of one decision: everything that answer, evidence and log are made of. */
export interface Verdict {
  readonly decision: Decision;
  readonly reasonCode: string;
  readonly summary: string;
  readonly mode: Mode;
  /** False when a refusal is only reported (modes `monitor` and `warn`). */
  readonly enforced: boolean;
  /** `<definition id>/<rule name>` of every rule that matched and counted. */
  readonly matchedRules: readonly string[];
  /** The same, of rules in `monitor` policies, with what they would have decided. */
  readonly observed: readonly {
    readonly rule: string;
    readonly decision: string;
    readonly reason: string;
  }[];
  readonly riskTier: RiskTier;
  readonly toolManifestHash?: string | undefined;
  readonly policyHash?: string | undefined;
  readonly nextSteps: readonly string[];
  /** Where a budget is used up: when the same call would get further, if nothing is added until then. */
  readonly resetsAtMs?: number | undefined;
  readonly effects: readonly Effect[];
  /** The use of a passport that this verdict rests on, if one was given. */
  readonly passportJti?: string | undefined;
  /** Undefined where no state was there to decide by. */
  readonly seen?: SeenFacts | undefined;
}

/** True when the call may be performed: allowed, warned about, or a refusal not enforced. */
export function mayProceed(verdict: Verdict): boolean {
  return verdict.decision === 'allow' || verdict.decision === 'warn' || !verdict.enforced;
}
