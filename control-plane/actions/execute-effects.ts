import { digestOf } from '../../shared/approval/action-digest.ts';
import { decide } from '../../shared/decision/decide.ts';
import { effectIn, type Reached, reachVerdict } from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { errorKinds } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { claimPassport } from '../../shared/passport/single-use-claim.ts';
import type { Release } from '../../shared/usage/usage-book.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import { agentCommentOn } from '../approvals/agent-comment.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { standingGrantsFor } from '../approvals/standing-grants.ts';
import type { Services } from '../core/services.ts';
import { claimDurably } from '../passports/claim-store.ts';
import { userPresence } from '../passports/user-presence.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';

export interface ReachedVerdict {
  readonly verdict: Verdict;
  /** Takes the call back out of the budgets. */
  readonly release: Release;
  /** The approval that the action waits for. */
  readonly approvalId?: number | undefined;
  /** What a human said of the action, as far as the agent is given it. */
  readonly approverComment?: string | undefined;
}

interface DecisionInput {
  readonly action: Action;
  readonly state: DecisionState;
  /** Who asks: recorded where a grant is used. */
  readonly principal: string;
  readonly requestedBy: readonly string[];
}

/**
 * Decides, and carries out what the verdict asks for: takes the passport's one use, spends the
 * grant, opens the approval, in that order.
 */
export async function executeEffects(
  services: Services,
  input: DecisionInput,
): Promise<ReachedVerdict> {
  const { bus, clock, log, usage } = services;
  const { action, state, principal } = input;
  const { tenantId } = action;
  let held = state.passport;
  const point: Parameters<typeof reachVerdict>[1] = {
    decideWith: ({ passport, grant }) => {
      held = passport;
      return measureWork(() => decide(action, { ...state, passport, grant }, clock.now()));
    },
    claim: (claim) =>
      // Durable whatever the risk: a claim that is deleted from the bus must not open a second use.
      claimPassport(
        { ...claim, durable: true },
        {
          bus,
          tenantId,
          nowMs: clock.now(),
          claimDurably: (jti, expiresAtMs) =>
            claimDurably(services, tenantId, { jti, expiresAtMs }),
          onFailure: (err) => log.warn({ err, jti: claim.jti }, 'a passport could not be claimed'),
        },
      ),
    spend: ({ approvalId, eventHash }) =>
      consumeApproval(services, tenantId, { approvalId, eventHash, usedBy: principal }),
    count: ({ sums }) => usage.count(action, sums),
  };
  const reached = await reachVerdict({ passport: held }, point);
  return requestApproval(services, input, {
    ...reached,
    reachWith: (grant) => reachVerdict({ passport: held, grant }, point),
  });
}

/** What a standing grant makes of an action that a human would have to be asked about. */
async function decideByStandingGrant(
  services: Services,
  { action, state }: DecisionInput,
  reachWith: PendingVerdict['reachWith'],
): Promise<Reached | undefined> {
  const actionDigest = digestOf(action, state.tool?.manifestHash);
  for (const { proof } of await standingGrantsFor(services, services.db, {
    action,
    actionDigest,
  })) {
    const reached = await reachWith(proof);
    if (reached.verdict.decision !== 'require_approval') return reached;
    reached.release();
  }
  return undefined;
}

interface PendingVerdict extends Reached {
  /** Decides anew, with a standing grant to rest on. */
  reachWith(grant: ApprovalProof): Promise<Reached>;
}

/** Looks for a standing grant before a human is asked. */
async function requestApproval(
  services: Services,
  input: DecisionInput,
  { verdict, release, reachWith }: PendingVerdict,
): Promise<ReachedVerdict> {
  const effect = effectIn(verdict, 'open_approval');
  if (effect === undefined) return { verdict, release };
  const { action, state } = input;
  try {
    const granted = await decideByStandingGrant(services, input, reachWith);
    if (granted !== undefined) {
      release();
      return granted;
    }
    const approval = await openApproval(services, {
      action,
      actionDigest: digestOf(action, state.tool?.manifestHash),
      terms: effect.terms,
      riskTier: verdict.riskTier,
      reasonCode: verdict.reasonCode,
      summary: verdict.summary,
      matchedRules: verdict.matchedRules,
      policyHash: verdict.policyHash,
      manifestHash: state.tool?.manifestHash,
      requestedBy: input.requestedBy,
      authenticatedAtMs: await authenticatedAtMs(services, input),
    });
    const approverComment = await agentCommentOn(services, approval);
    return { verdict, release, approvalId: approval.id, approverComment };
  } catch (thrown) {
    services.log.warn({ err: thrown }, 'an approval could not be opened');
    const tooMany = thrown instanceof GatewayError && thrown.code === 'approval.too_many_open';
    const code = tooMany ? thrown.code : 'approval.unavailable';
    return { verdict: refuse(verdict, code), release };
  }
}

/** When the user last proved to be there: by a passport of their own that came with the action. */
async function authenticatedAtMs(
  services: Pick<Services, 'db' | 'guard'>,
  { action: { tenantId, agentId, userId }, state: { passport } }: DecisionInput,
): Promise<number | undefined> {
  if (passport?.form !== 'signed') return undefined;
  const { jti } = passport.claims;
  return (await userPresence(services, { tenantId, agentId, jti, userId }))?.atMs;
}

/** The same verdict as a refusal, for a reason that came up while it was carried out. */
export function refuse(
  verdict: Verdict,
  code: 'approval.too_many_open' | 'approval.unavailable',
): Verdict {
  return {
    ...verdict,
    decision: 'deny',
    reasonCode: code,
    summary: errorKinds[code].text,
    nextSteps: [],
    effects: [],
  };
}
