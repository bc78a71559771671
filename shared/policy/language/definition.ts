import type { JsonValue } from '../../base/json.ts';
import type { Mode } from '../../vocabulary/action.ts';
import type { RuleGrant } from '../../vocabulary/grant-terms.ts';

export const ruleDecisions = [
  'allow',
  'deny',
  'warn',
  'require_approval',
  'require_reauth',
  'require_tool_reapproval',
  'require_policy_update',
  'dry_run',
] as const;
export type RuleDecision = (typeof ruleDecisions)[number];

export const operators = [
  '==',
  '!=',
  '>',
  '>=',
  '<',
  '<=',
  'in',
  'not_in',
  'contains',
  'matches',
] as const;
export type Operator = (typeof operators)[number];

/**
 * One condition on the context: a dotted path, an operator, and a literal or `{ "$ref": path }`.
 */
export interface PolicyCondition {
  readonly path: string;
  readonly operator: Operator;
  readonly value: JsonValue;
}

export type ConditionGroup =
  | { readonly all: readonly PolicyCondition[] }
  | { readonly any: readonly PolicyCondition[] };

/** Roles that an approval can require, lowest first. */
export const approvalRoles = ['approver', 'admin', 'owner'] as const;

export interface RuleApproval {
  readonly channel?: string | undefined;
  readonly min_role?: string | undefined;
  readonly quorum?: number | undefined;
  readonly sla_seconds?: number | undefined;
  /**
   * Limits of the standing grant that deciders may give; absent: an approval is valid for one call.
   */
  readonly grant?: RuleGrant | undefined;
}

export interface PolicyRule {
  readonly name: string;
  readonly decision: RuleDecision;
  /** The reason code recorded in verdict and evidence. */
  readonly reason: string;
  readonly approval?: RuleApproval | undefined;
  readonly when: ConditionGroup;
}

/** A policy as submitted by its author. */
export interface PolicyDefinition {
  readonly id: string;
  readonly version: number;
  readonly description?: string | undefined;
  readonly mode?: Mode | undefined;
  readonly applies_to?:
    | {
        readonly tools?: readonly string[] | undefined;
        readonly agents?: readonly string[] | undefined;
      }
    | undefined;
  readonly rules: readonly PolicyRule[];
}
