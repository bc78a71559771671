import type { ApprovalTerms, Decision } from '../../vocabulary/verdict.ts';
import type { PolicyContext } from '../language/context.ts';
import type { StrictScope } from './strict-scope.ts';
import type { UsageIndex } from './usage-index.ts';

/** What the published policies of a tenant say about one context. */
export interface PolicyOutcome {
  readonly decision: Decision;
  readonly reasonCode: string;
  /** Hash of the policy that decided; undefined when nothing matched. */
  readonly policyHash?: string | undefined;
  /** `<definition id>/<rule name>` of the rule whose decision and reason these are. */
  readonly decidedBy?: string | undefined;
  /** Every rule that matched and counts, by (policy id, rule index). */
  readonly matchedRules: readonly string[];
  /** Rules that matched without counting: of `monitor` policies, and of `warn` policies that changed nothing. */
  readonly observed: readonly {
    readonly rule: string;
    readonly decision: string;
    readonly reason: string;
  }[];
  /** The terms of all matching `require_approval` rules together. */
  readonly approval?: ApprovalTerms | undefined;
  /** Empty unless the rule's decision calls for steps of its own. */
  readonly nextSteps: readonly string[];
}

/** The published policies of one tenant, compiled and indexed by tool. */
export interface PolicySet {
  /** Hash over the sorted hashes of the published policies; stamped into passports. */
  readonly hash: string;
  readonly size: number;
  /** What must be known of earlier calls. */
  readonly usage: UsageIndex;
  /** Which calls are decided in mode `strict`, whatever mode is asked for. */
  readonly strict: StrictScope;
  evaluate(context: PolicyContext): PolicyOutcome;
}
