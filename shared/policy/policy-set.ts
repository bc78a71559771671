import type { ApprovalTerms, Decision } from '../decision/verdict.ts';
import type { PolicyContext } from './context.ts';

/** What the published policies of a tenant say about one context. */
export interface PolicyOutcome {
  readonly decision: Decision;
  readonly reasonCode: string;
  /** Hash of the policy that decided; undefined when nothing matched. */
  readonly policyHash?: string | undefined;
  readonly matchedRules: readonly string[];
  readonly observed: readonly {
    readonly rule: string;
    readonly decision: string;
    readonly reason: string;
  }[];
  /** The terms of all matching `require_approval` rules together. */
  readonly approval?: ApprovalTerms | undefined;
  readonly nextSteps: readonly string[];
}

/** The published policies of one tenant, compiled and indexed by tool. */
export interface PolicySet {
  /** Hash over the sorted hashes of the published policies; stamped into passports. */
  readonly hash: string;
  readonly size: number;
  evaluate(context: PolicyContext): PolicyOutcome;
}
