import { digestOf } from '../approval/action-digest.ts';
import type { ErrorCode } from '../errors/error-kinds.ts';
import type { Action, RiskTier } from '../vocabulary/action.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import { decidersSuffice } from '../vocabulary/deciders.ts';
import { satisfiesTerms } from '../vocabulary/grant-terms.ts';
import type { ApprovalTerms, Effect } from '../vocabulary/verdict.ts';
import type { DecisionState } from './state.ts';

/** The effect of an approval on this action. */
type GrantJudgement =
  | {
      readonly refused: ErrorCode;
      /** Default: the code's own text. */
      readonly summary?: string | undefined;
      readonly effect?: undefined;
    }
  | { readonly refused?: undefined; readonly effect: Effect };

const insufficientTerms: GrantJudgement = {
  refused: 'approval.invalid',
  summary:
    'The approval does not satisfy the terms that the rules now require: a higher role or more deciders are needed.',
};

interface GrantRequirements {
  readonly nowMs: number;
  /** The human decision that the rules currently require; undefined if they require none. */
  readonly terms: ApprovalTerms | undefined;
}

/**
 * If the passport is bound to an approval, refuses an action that this approval does not cover.
 * Otherwise evaluates a standing grant, which is never a reason to refuse; undefined if no grant
 * applies.
 */
export function judgeGrant(
  action: Action,
  state: DecisionState,
  asked: GrantRequirements,
): GrantJudgement | undefined {
  const { passport } = state;
  if (passport?.form === 'signed' && passport.claims.approval_hash !== null) {
    return judgeBound(action, state, asked, passport);
  }
  const { grant } = state;
  if (asked.terms === undefined || grant?.standing === undefined) return undefined;
  const judged = judgeProof(grant, action, state, asked);
  return judged.refused === undefined ? judged : undefined;
}

type SignedPassport = Extract<DecisionState['passport'], { readonly form: 'signed' }>;

function judgeBound(
  action: Action,
  state: DecisionState,
  asked: GrantRequirements,
  { claims, approval }: SignedPassport,
): GrantJudgement {
  if (approval === undefined || approval.eventHash !== claims.approval_hash) {
    return { refused: 'approval.invalid' };
  }
  return judgeProof(approval, action, state, asked);
}

/**
 * Checks that the approval grants exactly this action, is unused and unexpired, and has deciders
 * who satisfy the terms that the rules currently require.
 */
function judgeProof(
  proof: ApprovalProof,
  action: Action,
  state: DecisionState,
  { nowMs, terms }: GrantRequirements,
): GrantJudgement {
  const { approvalId, eventHash, standing } = proof;
  if (!proof.granted) return { refused: 'approval.invalid' };
  if (!covers(proof, action, state)) return { refused: 'approval.invalid' };
  if (standing !== undefined && terms !== undefined && !satisfiesTerms(standing, terms)) {
    return { refused: 'approval.invalid' };
  }
  if (proof.revoked === true) return { refused: 'approval.grant_revoked' };
  if (proof.used) return { refused: 'approval.used' };
  if (nowMs >= proof.expiresAtMs) return { refused: 'approval.expired' };
  if (terms !== undefined && !decidersSuffice(proof.deciders, terms)) return insufficientTerms;
  return { effect: { kind: 'spend_approval', approvalId, eventHash } };
}

function covers(
  { actionDigest, standing }: ApprovalProof,
  action: Action,
  state: DecisionState,
): boolean {
  if (standing !== undefined && riskOf(state) === 'critical') return false;
  if (standing?.scope === 'tool') {
    return (
      !answersServer(action) &&
      standing.agentId === action.agentId &&
      standing.userId === action.userId &&
      standing.tool === action.tool &&
      standing.manifestHash === (state.tool?.manifestHash ?? null)
    );
  }
  try {
    return actionDigest === digestOf(action, state.tool?.manifestHash);
  } catch {
    // Arguments without a canonical form were never approved.
    return false;
  }
}

/**
 * True for a later round of an MCP call, which sends the client's answers to the server. The effect
 * of such a round depends on these answers, which no approver saw.
 */
export function answersServer({ mcp }: Action): boolean {
  return mcp?.input_responses !== undefined || mcp?.request_state !== undefined;
}

/** The risk tier of the tool, or else of the passport. */
export function riskOf({ tool, passport }: DecisionState): RiskTier | undefined {
  return tool?.riskTier ?? (passport?.form === 'signed' ? passport.claims.risk_tier : undefined);
}
