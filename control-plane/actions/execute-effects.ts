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
  /** Takes the call out of the budgets again. */
  readonly release: Release;
  /** Approval that the action waits for. */
  readonly approvalId?: number | undefined;
  /** Comment of a decider, as redacted for the agent. */
  readonly approverComment?: string | undefined;
}

interface DecisionInput {
  readonly action: Action;
  readonly state: DecisionState;
  /** Caller's principal, recorded when a grant is used. */
  readonly principal: string;
  readonly requestedBy: readonly string[];
}

/**
 * Decides on an action and executes the effects of the verdict in this order: claims the passport,
 * consumes the grant, opens the approval.
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
      // Durable at every risk tier, because a claim that is deleted from the bus must not allow a
      // second use.
      claimPassport(
        { ...claim, durable: true },
        {
          bus,
          tenantId,
          nowMs: clock.now(),
          claimDurably: (jti, expiresAtMs) =>
            claimDurably(services, tenantId, { jti, expiresAtMs }),
          onFailure: (err) => log.warn({ err, jti: claim.jti }, 'could not claim a passport'),
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

/** Decides again with each standing grant that covers the action; undefined if none applies. */
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
  /** Decides again with a standing grant. */
  reachWith(grant: ApprovalProof): Promise<Reached>;
}

/** Uses a standing grant if one covers the action; otherwise opens an approval. */
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
    services.log.warn({ err: thrown }, 'could not open an approval');
    const tooMany = thrown instanceof GatewayError && thrown.code === 'approval.too_many_open';
    const code = tooMany ? thrown.code : 'approval.unavailable';
    return { verdict: refuse(verdict, code), release };
  }
}

/**
 * Time of the user's last proven presence, by a passport of that user that came with the action.
 */
async function authenticatedAtMs(
  services: Pick<Services, 'db' | 'guard'>,
  { action: { tenantId, agentId, userId }, state: { passport } }: DecisionInput,
): Promise<number | undefined> {
  if (passport?.form !== 'signed') return undefined;
  const { jti } = passport.claims;
  return (await userPresence(services, { tenantId, agentId, jti, userId }))?.atMs;
}

/** Turns a verdict into a denial because one of its effects failed. */
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
