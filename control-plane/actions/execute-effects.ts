import { digestOf } from '../../shared/approval/action-digest.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  type DecisionInput,
  type DecisionPoint,
  effectIn,
  type Reached,
  reachByStandingGrant,
  reachVerdict,
} from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { errorKinds } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { claimPassport } from '../../shared/passport/single-use-claim.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalTerms, Verdict } from '../../shared/vocabulary/verdict.ts';
import { agentCommentOn } from '../approvals/agent-comment.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { standingGrantsFor } from '../approvals/standing-grants.ts';
import type { Services } from '../core/services.ts';
import { claimDurably } from '../passports/claim-store.ts';
import { userPresence } from '../passports/user-presence.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';

export interface ReachedVerdict extends Pick<Reached, 'verdict' | 'release'> {
  /** Approval that the action waits for. */
  readonly approvalId?: number | undefined;
  /** Comment of a decider, as redacted for the agent. */
  readonly approverComment?: string | undefined;
}

interface DecisionRequest {
  readonly action: Action;
  readonly state: DecisionState;
  /** Caller's principal, recorded when a grant is used. */
  readonly principal: string;
  readonly requestedBy: readonly string[];
}

interface PointInput extends DecisionInput, DecisionRequest {
  readonly services: Services;
}

/**
 * The control plane as a decision point: how it decides, and how it executes each effect of a
 * verdict.
 */
const controlPlanePoint: DecisionPoint<PointInput> = {
  decideWith: ({ services, action, state, passport, grant }) =>
    measureWork(() => decide(action, { ...state, passport, grant }, services.clock.now())),
  claim: (claim, { services, action: { tenantId } }) =>
    // The claim is durable at every risk tier, because deleting a claim from the bus must not allow
    // a second use of the passport.
    claimPassport(
      { ...claim, durable: true },
      {
        bus: services.bus,
        tenantId,
        nowMs: services.clock.now(),
        claimDurably: (jti, expiresAtMs) => claimDurably(services, tenantId, { jti, expiresAtMs }),
        onFailure: (err) =>
          services.log.warn({ err, jti: claim.jti }, 'could not claim a passport'),
      },
    ),
  spend: ({ approvalId, eventHash }, { services, action, principal }) =>
    consumeApproval(services, action.tenantId, { approvalId, eventHash, usedBy: principal }),
  count: ({ sums }, { services, action }) => services.usage.count(action, sums),
};

/**
 * Decides on an action and executes the effects of the verdict. If a human must decide, uses a
 * standing grant that covers the action, or opens an approval if no such grant exists.
 */
export async function executeEffects(
  services: Services,
  request: DecisionRequest,
): Promise<ReachedVerdict> {
  const input = { ...request, services, passport: request.state.passport };
  const first = await reachVerdict(input, controlPlanePoint);
  const opening = effectIn(first.verdict, 'open_approval');
  if (opening === undefined) return first;
  try {
    const granted = await decideByStandingGrant(first, input);
    return granted ?? (await requestApproval(first, opening.terms, input));
  } catch (thrown) {
    services.log.warn({ err: thrown }, 'could not open an approval');
    return { ...first, verdict: denyWithoutApproval(first.verdict, thrown) };
  }
}

/**
 * Decides again with the standing grants that cover the action. Returns undefined if none applies.
 */
async function decideByStandingGrant(
  first: Reached,
  input: PointInput,
): Promise<Reached | undefined> {
  const { services, action, state } = input;
  const actionDigest = digestOf(action, state.tool?.manifestHash);
  const grants = await standingGrantsFor(services, services.db, { action, actionDigest });
  const { passport } = first;
  return reachByStandingGrant(first, {
    grants,
    reachWith: ({ proof }) => reachVerdict({ ...input, passport, grant: proof }, controlPlanePoint),
  });
}

async function requestApproval(
  first: Reached,
  terms: ApprovalTerms,
  { services, action, state, requestedBy }: PointInput,
): Promise<ReachedVerdict> {
  const { verdict } = first;
  const approval = await openApproval(services, {
    action,
    actionDigest: digestOf(action, state.tool?.manifestHash),
    terms,
    riskTier: verdict.riskTier,
    reasonCode: verdict.reasonCode,
    summary: verdict.summary,
    matchedRules: verdict.matchedRules,
    policyHash: verdict.policyHash,
    manifestHash: state.tool?.manifestHash,
    requestedBy,
    authenticatedAtMs: await authenticatedAtMs(services, { action, state }),
  });
  const approverComment = await agentCommentOn(services, approval);
  return { ...first, approvalId: approval.id, approverComment };
}

/** Returns when the user last authenticated, according to the user's passport in the request. */
async function authenticatedAtMs(
  services: Pick<Services, 'db' | 'guard'>,
  {
    action: { tenantId, agentId, userId },
    state: { passport },
  }: Pick<DecisionRequest, 'action' | 'state'>,
): Promise<number | undefined> {
  if (passport?.form !== 'signed') return undefined;
  const { jti } = passport.claims;
  return (await userPresence(services, { tenantId, agentId, jti, userId }))?.atMs;
}

/** Denies an action because the approval that it needs could not be opened. */
function denyWithoutApproval(verdict: Verdict, thrown: unknown): Verdict {
  const tooMany = thrown instanceof GatewayError && thrown.code === 'approval.too_many_open';
  const code = tooMany ? thrown.code : 'approval.unavailable';
  return {
    ...verdict,
    decision: 'deny',
    reasonCode: code,
    summary: errorKinds[code].text,
    nextSteps: [],
    effects: [],
  };
}
