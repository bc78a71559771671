import type { ApprovalTerms, Decision } from '../../vocabulary/verdict.ts';
import type { PolicyContext } from '../language/context.ts';
import type { StrictScope } from './strict-scope.ts';
import type { UsageIndex } from './usage-index.ts';

/** The outcome of a tenant's published policies for one context. */
export interface PolicyOutcome {
  readonly decision: Decision;
  readonly reasonCode: string;
  /** Hash of the policy that decided; undefined if no rule matched. */
  readonly policyHash?: string | undefined;
  /** `<definition id>/<rule name>` of the rule that supplied decision and reason. */
  readonly decidedBy?: string | undefined;
  /** Every matching rule that took effect, sorted by policy id, then by rule index. */
  readonly matchedRules: readonly string[];
  /**
   * Matching rules without effect: rules of `monitor` policies, and rules of `warn` policies that
   * did not change the decision.
   */
  readonly observed: readonly {
    readonly rule: string;
    readonly decision: string;
    readonly reason: string;
  }[];
  /** The combined terms of all matching `require_approval` rules. */
  readonly approval?: ApprovalTerms | undefined;
  /** Next steps that the deciding rule's decision defines; empty for most decisions. */
  readonly nextSteps: readonly string[];
}

/** The published policies of one tenant, compiled and indexed by tool. */
export interface PolicySet {
  /** Hash over the sorted hashes of the published policies; recorded in passports. */
  readonly hash: string;
  readonly size: number;
  /** The past usage that the policies read. */
  readonly usage: UsageIndex;
  /** Calls that are decided in mode `strict`, whatever mode they request. */
  readonly strict: StrictScope;
  evaluate(context: PolicyContext): PolicyOutcome;
}
