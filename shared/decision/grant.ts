import { digestOf } from '../approval/action-digest.ts';
import type { ErrorCode } from '../errors/error-kinds.ts';
import type { Action, RiskTier } from '../vocabulary/action.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import { decidersSuffice } from '../vocabulary/deciders.ts';
import { satisfiesTerms } from '../vocabulary/grant-terms.ts';
import type { ApprovalTerms, Effect } from '../vocabulary/verdict.ts';
import type { DecisionState } from './state.ts';

/** What an approval is worth for this action. */
type GrantJudgement =
  | {
      readonly refused: ErrorCode;
      /** Default: the code's own text. */
      readonly summary?: string | undefined;
      readonly effect?: undefined;
    }
  | { readonly refused?: undefined; readonly effect: Effect };

const tooWeak: GrantJudgement = {
  refused: 'approval.invalid',
  summary:
    'The approval was given under weaker terms than the rules now ask for: a higher role or more deciders are needed.',
};

interface Asked {
  readonly nowMs: number;
  /** What the rules ask of a human now; undefined where they ask for none. */
  readonly terms: ApprovalTerms | undefined;
}

/**
 * Judges the approval that a passport is bound to, which refuses the action when it is not for
 * it, else a standing grant, which then says nothing. Undefined: a human must be asked.
 */
export function judgeGrant(
  action: Action,
  state: DecisionState,
  asked: Asked,
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
  asked: Asked,
  { claims, approval }: SignedPassport,
): GrantJudgement {
  if (approval === undefined || approval.eventHash !== claims.approval_hash) {
    return { refused: 'approval.invalid' };
  }
  return judgeProof(approval, action, state, asked);
}

/**
 * The decision must be a grant, for exactly this action, unspent and unexpired, by deciders who
 * satisfy what the rules ask now.
 */
function judgeProof(
  proof: ApprovalProof,
  action: Action,
  state: DecisionState,
  { nowMs, terms }: Asked,
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
  if (terms !== undefined && !decidersSuffice(proof.deciders, terms)) return tooWeak;
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
    // Arguments that JSON cannot hold faithfully were never approved.
    return false;
  }
}

/** A later round of a call: what it performs depends on answers that nobody has seen before. */
export function answersServer({ mcp }: Action): boolean {
  return mcp?.input_responses !== undefined || mcp?.request_state !== undefined;
}

/** The risk of an action: its tool's, else what its passport was issued for. */
export function riskOf({ tool, passport }: DecisionState): RiskTier | undefined {
  return tool?.riskTier ?? (passport?.form === 'signed' ? passport.claims.risk_tier : undefined);
}
