import { foldPrincipal } from '../base/principal.ts';
import type { ErrorCode } from '../errors/error-kinds.ts';
import type { RiskTier } from '../vocabulary/action.ts';
import {
  type ApprovalAction,
  type ApprovalState,
  isOpen,
  stateAt,
  transition,
} from '../vocabulary/approval-states.ts';
import type { Deciders } from '../vocabulary/deciders.ts';
import {
  agreeGrant,
  type GrantLimits,
  type GrantRequest,
  narrowestGrant,
} from '../vocabulary/grant-terms.ts';
import { lowestRole, roleAbove, roleSuffices } from '../vocabulary/roles.ts';
import { personsOf, sharePerson } from './persons.ts';

/** The stored facts about an approval at the time when somebody acts on it. */
export interface ApprovalFacts {
  readonly kind: 'action' | 'tool';
  readonly status: ApprovalState;
  readonly agentId: string;
  readonly userId: string;
  /** The user's e-mail address in the directory. A principal may use this address as its name. */
  readonly userEmail?: string | undefined;
  readonly minRole: string;
  readonly quorum: number;
  readonly expiresAtMs: number;
  readonly escalatedBy?: string | undefined;
  /** Principals that requested the approval, and the principals that created their API keys. */
  readonly requestedBy: readonly string[];
  readonly riskTier: RiskTier;
  /** Limits of a standing grant, set by the rules that require the approval. */
  readonly grantLimits?: GrantLimits | undefined;
}

interface Decider {
  /** The principal of the API key. */
  readonly principal: string;
  /** Principals whose keys created the decider's key. They and the decider count as one person. */
  readonly mintedBy?: readonly string[] | undefined;
  readonly role: string;
  /** The agent that the key is bound to, if any. */
  readonly agentId?: string | undefined;
}

/** An earlier act on the same approval, after which the approval stayed open. */
export interface Vote {
  readonly principal: string;
  readonly mintedBy?: readonly string[] | undefined;
  readonly role: string;
  readonly action: ApprovalAction;
  /** For `modify`: digest of the action with the modified arguments. */
  readonly effectiveDigest?: string | undefined;
  /** For `approve`: the standing grant that this vote requested. */
  readonly grant?: GrantLimits | undefined;
}

export interface DecisionAttempt {
  readonly approval: ApprovalFacts;
  readonly decider: Decider;
  readonly action: ApprovalAction;
  /** For `modify`: digest of the action with the modified arguments. */
  readonly effectiveDigest?: string | undefined;
  /** The standing grant requested with `approve`. */
  readonly grant?: GrantRequest | undefined;
  readonly nowMs: number;
  /**
   * True if the delegating user authenticated again after a decider required it (`require_reauth`).
   */
  readonly reauthenticated: boolean;
  /** True if the tool's current manifest is approved. */
  readonly manifestApproved: boolean;
  /** All earlier acts, oldest first. */
  readonly votes: readonly Vote[];
}

export type DecisionOutcome =
  | {
      readonly ok: true;
      /** The state after the act; unchanged while votes are missing. */
      readonly status: ApprovalState;
      /** True if the new state allows no further transition. */
      readonly isFinal: boolean;
      /** Number of votes for this outcome that the quorum still needs. */
      readonly votesMissing: number;
      readonly minRole: string;
      readonly escalatedBy?: string | undefined;
      /** The deciders; set if this act grants the approval. */
      readonly deciders?: Deciders | undefined;
      /** The standing grant that this act requests, with defaults filled in. */
      readonly grantAsked?: GrantLimits | undefined;
      /**
       * The standing grant that results from this act. Each term has the lowest value that an
       * approver requested.
       */
      readonly grant?: GrantLimits | undefined;
    }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

type Refusal = Extract<DecisionOutcome, { readonly ok: false }>;

/**
 * Evaluates one act on an approval: first the decider's rights, then the state, then preconditions,
 * then votes. Pure; the caller records the act and stores the outcome.
 */
export function judgeDecision(attempt: DecisionAttempt): DecisionOutcome {
  return (
    refuseOwnRequest(attempt) ??
    refuseRole(attempt) ??
    refuseTransition(attempt) ??
    refuseEscalator(attempt) ??
    refusePrecondition(attempt) ??
    refuseSecondVote(attempt) ??
    agreeAndMove(attempt)
  );
}

function refuse(code: ErrorCode, message: string): Refusal {
  return { ok: false, code, message };
}

function refuseOwnRequest({ approval, decider }: DecisionAttempt): Refusal | undefined {
  const { agentId, userId, userEmail, requestedBy } = approval;
  const email = userEmail === undefined ? [] : [userEmail];
  const requesters = [userId, ...email, agentId, `agent:${agentId}`, ...requestedBy];
  const isOwn = decider.agentId === agentId || sharePerson(requesters, personsOf(decider));
  return isOwn
    ? refuse(
        'approval.self_decision',
        'You cannot decide on an approval that you requested, or with a key that the requester created; ask another person.',
      )
    : undefined;
}

function refuseRole({ approval, decider }: DecisionAttempt): Refusal | undefined {
  return roleSuffices(decider.role, approval.minRole)
    ? undefined
    : refuse(
        'approval.role_insufficient',
        `This approval needs the role ${approval.minRole}; the key has ${decider.role}.`,
      );
}

function refuseTransition({ approval, action, nowMs }: DecisionAttempt): Refusal | undefined {
  const state = stateAt(approval, nowMs);
  const overdue = state !== approval.status;
  if (overdue && action === 'expire') return undefined;
  if (overdue) {
    return refuse('approval.transition_invalid', 'The approval expired: nobody decided in time.');
  }
  const isForActionsOnly = action === 'modify' || action === 'require_tool_reapproval';
  if (transition(state, action) === undefined || (approval.kind === 'tool' && isForActionsOnly)) {
    return refuse(
      'approval.transition_invalid',
      `An approval that is ${state} does not allow ${action}.`,
    );
  }
  return undefined;
}

const deciding: readonly ApprovalAction[] = ['approve', 'deny', 'modify'];

function refuseEscalator({
  approval,
  decider,
  action,
  votes,
}: DecisionAttempt): Refusal | undefined {
  if (!deciding.includes(action) || approval.escalatedBy === undefined) return undefined;
  const escalations = votes.filter((vote) => vote.action === 'escalate').flatMap(personsOf);
  const escalators = [approval.escalatedBy, ...escalations];
  return sharePerson(escalators, personsOf(decider))
    ? refuse(
        'approval.already_voted',
        'You escalated this approval, so you cannot decide it; ask another person.',
      )
    : undefined;
}

function refusePrecondition(attempt: DecisionAttempt): Refusal | undefined {
  const { action, effectiveDigest } = attempt;
  if (action !== 'approve' && action !== 'modify') return undefined;
  if (isDemanded('require_reauth', 'reauth_required', attempt) && !attempt.reauthenticated) {
    return refuse(
      'approval.precondition_unmet',
      'The delegating user must authenticate again: request the same action with a passport that was issued after that.',
    );
  }
  const waitsForTool = isDemanded('require_tool_reapproval', 'tool_reapproval_required', attempt);
  if (waitsForTool && !attempt.manifestApproved) {
    return refuse('approval.precondition_unmet', "Approve the tool's current manifest first.");
  }
  return action === 'modify' && effectiveDigest === undefined
    ? refuse('approval.precondition_unmet', 'modify requires the new arguments.')
    : undefined;
}

/**
 * True if a decider required `action` and the requirement is still open. An open requirement
 * remains when the approval moves to another open state.
 */
function isDemanded(
  action: ApprovalAction,
  state: ApprovalState,
  { approval, votes }: DecisionAttempt,
): boolean {
  return approval.status === state || votes.some((vote) => vote.action === action);
}

function refuseSecondVote(attempt: DecisionAttempt): Refusal | undefined {
  const { action, decider } = attempt;
  if (action !== 'approve' && action !== 'modify') return undefined;
  return standingVotes(attempt).some((vote) => sharePerson(personsOf(vote), personsOf(decider)))
    ? refuse(
        'approval.already_voted',
        'You already decided on this approval; keys that one person created count as that person.',
      )
    : undefined;
}

/**
 * Returns the votes that still count: those after the last act that is not a vote (such as an
 * escalation), by voters whose role satisfies the current `minRole`.
 */
function standingVotes({ votes, approval }: DecisionAttempt): readonly Vote[] {
  const isVote = ({ action }: Vote) => action === 'approve' || action === 'modify';
  return votes
    .slice(votes.findLastIndex((vote) => !isVote(vote)) + 1)
    .filter(({ role }) => roleSuffices(role, approval.minRole));
}

function agreeAndMove(attempt: DecisionAttempt): DecisionOutcome {
  const { approval, grant } = attempt;
  if (grant === undefined) return move(attempt);
  if (attempt.action !== 'approve' || approval.kind !== 'action') {
    return refuse('approval.grant_refused', 'A standing grant can be requested only with approve.');
  }
  const { grantLimits: limits, riskTier } = approval;
  const agreed = agreeGrant(grant, { limits, riskTier });
  return agreed.ok ? move(attempt, agreed.terms) : agreed;
}

function move(attempt: DecisionAttempt, grantAsked?: GrantLimits): DecisionOutcome {
  const { approval, action, decider } = attempt;
  const isEscalation = action === 'escalate';
  const kept = {
    minRole: isEscalation ? roleAbove(approval.minRole) : approval.minRole,
    escalatedBy: isEscalation ? decider.principal : approval.escalatedBy,
    grantAsked,
  };
  const votesMissing = missingVotes(attempt);
  if (votesMissing > 0) {
    return { ok: true, status: approval.status, isFinal: false, votesMissing, ...kept };
  }
  // Undefined only for `expire`: refuseTransition refused every other action without a transition.
  const status = transition(approval.status, action) ?? 'expired';
  const grant =
    status === 'approved' ? narrowestGrant([grantAsked, ...grantsOf(attempt)]) : undefined;
  const isGranted = status === 'approved' || status === 'modified';
  const deciders = isGranted ? decidersOf(attempt) : undefined;
  return { ok: true, status, isFinal: !isOpen(status), votesMissing: 0, ...kept, grant, deciders };
}

function decidersOf(attempt: DecisionAttempt): Deciders {
  const { decider } = attempt;
  const agreed = [...agreeingVotes(attempt), decider];
  const people = new Set(agreed.map(({ principal }) => foldPrincipal(principal)));
  return { role: lowestRole(agreed.map(({ role }) => role)) ?? decider.role, count: people.size };
}

function grantsOf(attempt: DecisionAttempt): readonly (GrantLimits | undefined)[] {
  return standingVotes(attempt)
    .filter(({ action }) => action === 'approve')
    .map(({ grant }) => grant);
}

/**
 * Number of votes for the same outcome that the quorum still needs after the current vote. A denial
 * needs no further votes.
 */
function missingVotes(attempt: DecisionAttempt): number {
  const { approval, action } = attempt;
  if (action !== 'approve' && action !== 'modify') return 0;
  const people = new Set(agreeingVotes(attempt).map((vote) => foldPrincipal(vote.principal)));
  return Math.max(0, approval.quorum - people.size - 1);
}

/** Earlier votes for exactly the same outcome. */
function agreeingVotes(attempt: DecisionAttempt): readonly Vote[] {
  const { action, effectiveDigest } = attempt;
  return standingVotes(attempt).filter(
    (vote) =>
      vote.action === action && (action === 'approve' || vote.effectiveDigest === effectiveDigest),
  );
}
