import { digestOf } from '../../shared/approval/action-digest.ts';
import { effectIn, reachByStandingGrant } from '../../shared/decision/reach-verdict.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { proofOf, readPresented } from './presented-passport.ts';
import { type JudgeDeps, type Judgement, noLease, reachJudgement } from './reach-judgement.ts';

/**
 * Judges the action again by a human's decision on exactly this action, regardless of the passport
 * that was presented with the call.
 */
export async function judgeByApproval(first: Judgement, deps: JudgeDeps): Promise<Judgement> {
  const { action } = first;
  const digest = digestOf(action, deps.replica.tool(action.tool)?.manifestHash);
  const standing = await judgeByStandingGrant(first, digest, deps);
  if (standing !== undefined) return standing;
  const terms = effectIn(first.verdict, 'open_approval')?.terms;
  const approval = deps.replica.approvalFor(digest, terms);
  if (approval === undefined) return first;
  if (approval.status !== 'approved' && approval.status !== 'modified') {
    return { ...first, approval };
  }
  const isConsumed = approval.used === true || deps.consumedApprovals.has(approval.id);
  if (isConsumed || approval.passport === undefined) return first;
  const granted =
    approval.status === 'modified'
      ? { ...action, args: approval.effectiveArgs ?? action.args }
      : action;
  const passport = await readPresented(approval.passport, deps);
  // This passport belongs to the approval. Consuming the approval therefore also claims the single
  // use of the passport.
  first.release();
  const input = { action: granted, passport: claimed(passport), deps };
  return { ...(await reachJudgement(input)), approval };
}

/** Judges by the first standing grant that covers the call and has a use left. */
async function judgeByStandingGrant(
  first: Judgement,
  digest: string,
  deps: JudgeDeps,
): Promise<Judgement | undefined> {
  const { action, presented, verdict } = first;
  // If the mode only observes, the call proceeds without a human and consumes no use of a grant.
  if (!verdict.enforced) return undefined;
  return reachByStandingGrant(first, {
    grants: usableGrants(action, digest, deps),
    async reachWith(approval): Promise<Judgement> {
      const passport = await heldPassport(presented, deps);
      const judged = await reachJudgement({ action, passport, grant: proofOf(approval), deps });
      return { ...judged, presented, approval };
    },
  });
}

/**
 * Yields the standing grants that the call may use. A grant for any arguments does not override a
 * human's denial of exactly this action.
 */
function* usableGrants(
  action: Action,
  digest: string,
  { replica, consumedApprovals }: JudgeDeps,
): Generator<DeliveredApproval> {
  const isDenied = replica.approvalFor(digest)?.status === 'denied';
  for (const approval of replica.standingGrantsFor(action, digest)) {
    if (consumedApprovals.has(approval.id)) continue;
    if (isDenied && approval.grant?.scope === 'tool') continue;
    yield approval;
  }
}

/**
 * Returns the passport that the call needs in addition to the grant. Reads it again, because a hold
 * takes time.
 */
async function heldPassport(
  presented: string | undefined,
  deps: JudgeDeps,
): Promise<PassportState> {
  if (presented === undefined) return deps.replica.nextUse() ?? noLease;
  return claimed(await readPresented(presented, deps));
}

function claimed(passport: PassportState): PassportState {
  return passport.form === 'signed' ? { ...passport, use: 'claimed' } : passport;
}
