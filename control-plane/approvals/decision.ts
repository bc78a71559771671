import type { ApprovalAction } from '../../shared/approval/states.ts';
import type { JsonObject } from '../../shared/json.ts';

export interface ApprovalDecision {
  readonly id: number;
  readonly action: ApprovalAction;
  readonly comment?: string | undefined;
  /** For `modify`: the arguments that may be performed instead. */
  readonly modifiedArgs?: JsonObject | undefined;
  /** Where the decision comes from: `api`, or an integration's channel. */
  readonly source: string;
}

export interface Grant {
  readonly digest: string;
  readonly expiresAt: Date;
}
