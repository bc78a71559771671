import type { Action } from '../../shared/vocabulary/action.ts';
import { judgeByApproval } from './judge-by-approval.ts';
import { judgePresented } from './presented-passport.ts';
import {
  type JudgeDeps,
  type Judgement,
  needsUsage,
  noLease,
  reachJudgement,
} from './reach-judgement.ts';

/**
 * Judges one action with the replica in memory. Returns at once for a call under the lease; the
 * network is used only to claim a presented passport and to consume a granted approval.
 */
export function judge(
  action: Action,
  presented: string | undefined,
  deps: JudgeDeps,
): Judgement | Promise<Judgement> {
  const learning = needsUsage(action, deps) ? deps.usage.firstTry() : undefined;
  if (learning !== undefined || presented !== undefined) {
    return judgeLater(action, presented, { learning, deps });
  }
  const judging = judgeByLease(action, deps);
  if (judging instanceof Promise) return judging.then((first) => judgeFurther(first, deps));
  return judgeFurther(judging, deps);
}

/** Waits until the agent's usage outside this run is known, and reads the presented passport. */
async function judgeLater(
  action: Action,
  presented: string | undefined,
  { learning, deps }: { readonly learning: Promise<void> | undefined; readonly deps: JudgeDeps },
): Promise<Judgement> {
  if (learning !== undefined) await learning;
  const first =
    presented === undefined
      ? await judgeByLease(action, deps)
      : await judgePresented(action, presented, deps);
  return judgeFurther(first, deps);
}

/**
 * Judges the call even without a lease, because the tenant's mode determines whether a refusal is
 * enforced.
 */
function judgeByLease(action: Action, deps: JudgeDeps): Judgement | Promise<Judgement> {
  return reachJudgement({ action, passport: deps.replica.nextUse() ?? noLease, deps });
}

/** Consults human decisions if the verdict requires one. */
function judgeFurther(first: Judgement, deps: JudgeDeps): Judgement | Promise<Judgement> {
  return first.verdict.decision === 'require_approval' ? judgeByApproval(first, deps) : first;
}
