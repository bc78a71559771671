import type { JsonObject } from '../../shared/base/json.ts';
import type { ApprovalAction } from '../../shared/vocabulary/approval-states.ts';
import type { GrantLimits, GrantRequest } from '../../shared/vocabulary/grant-terms.ts';

export interface ApprovalDecision {
  readonly id: number;
  readonly action: ApprovalAction;
  readonly comment?: string | undefined;
  /** For `modify`: the arguments to use instead of the requested ones. */
  readonly modifiedArgs?: JsonObject | undefined;
  /** For `approve`: a standing grant instead of a single call. */
  readonly grant?: GrantRequest | undefined;
  /** Source of the decision: `api`, or an integration's channel. */
  readonly source: string;
}

export interface Grant {
  readonly digest: string;
  readonly expiresAt: Date;
  /** Set for a standing grant. */
  readonly standing?: GrantLimits | undefined;
}
