import { digestOf } from '../approval/action-digest.ts';
import type { ErrorCode } from '../errors.ts';
import type { Action } from './action.ts';
import type { ApprovalProof, DecisionState } from './state.ts';
import type { Effect } from './verdict.ts';

/** What the approval that a passport is bound to is worth for this action. */
type GrantJudgement =
  | { readonly refused: ErrorCode; readonly effect?: undefined }
  | { readonly refused?: undefined; readonly effect: Effect };

/**
 * Judges the `approval_hash` of a passport: the decision it names must be known, granted, for
 * exactly this action, unspent and unexpired. Undefined when the passport is bound to none.
 */
export function judgeGrant(
  action: Action,
  state: DecisionState,
  nowMs: number,
): GrantJudgement | undefined {
  if (state.passport?.form !== 'signed') return undefined;
  const { claims, approval } = state.passport;
  if (claims.approval_hash === null) return undefined;
  if (approval === undefined || approval.eventHash !== claims.approval_hash || !approval.granted) {
    return { refused: 'approval.invalid' };
  }
  if (!covers(approval, action, state)) return { refused: 'approval.invalid' };
  if (approval.used) return { refused: 'approval.used' };
  if (nowMs >= approval.expiresAtMs) return { refused: 'approval.expired' };
  const { approvalId, eventHash } = approval;
  return { effect: { kind: 'spend_approval', approvalId, eventHash } };
}

function covers({ actionDigest }: ApprovalProof, action: Action, state: DecisionState): boolean {
  try {
    return actionDigest === digestOf(action, state.tool?.manifestHash);
  } catch {
    // Arguments that JSON cannot hold faithfully were never approved.
    return false;
  }
}
