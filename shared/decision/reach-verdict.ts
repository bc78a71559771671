import type { JsonObject } from '../base/json.ts';
import type { PassportState } from '../passport/passport-state.ts';
import type { GiveBack } from '../usage/usage-book.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { Effect, Verdict } from '../vocabulary/verdict.ts';

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/** The authority for an action: a passport, and a human decision if required. */
interface Authority {
  readonly passport: PassportState | undefined;
  /** A standing grant that may be used. */
  readonly grant?: ApprovalProof | undefined;
}

/** The decisions and side effects of one decision point. */
interface DecisionPoint {
  decideWith(authority: Authority): Verdict;
  /** Claims the single use of the passport. */
  claim(effect: EffectOf<'claim_passport'>): Promise<'claimed' | 'replayed' | 'unavailable'>;
  /** Consumes the grant, or one of its uses; false if others consumed it first. */
  spend(effect: EffectOf<'spend_approval'>): Promise<boolean>;
  /** Counts the call against budgets, in the same tick. */
  count(effect: EffectOf<'count_usage'>): GiveBack;
}

/** A verdict whose side effects were executed. */
export interface Reached {
  readonly verdict: Verdict;
  /** Removes the call from the budgets if it is not performed after all. */
  readonly giveBack: GiveBack;
}

/** The effect of this kind in a verdict. */
export function effectIn<Kind extends Effect['kind']>(
  { effects }: Verdict,
  kind: Kind,
): EffectOf<Kind> | undefined {
  return effects.find((effect): effect is EffectOf<Kind> => effect.kind === kind);
}

/**
 * Decides, claims the passport, counts the call, and consumes the grant, in that order. If a step
 * fails, it decides again with that result, so that the verdict always matches what happened. No
 * await separates a verdict from counting it.
 */
export async function reachVerdict(authority: Authority, point: DecisionPoint): Promise<Reached> {
  let held = authority;
  let verdict = point.decideWith(held);
  const claim = effectIn(verdict, 'claim_passport');
  if (claim !== undefined && held.passport?.form === 'signed') {
    held = { ...held, passport: { ...held.passport, use: await point.claim(claim) } };
    verdict = point.decideWith(held);
  }
  const giveBack = count(verdict, point);
  const spend = effectIn(verdict, 'spend_approval');
  if (spend === undefined || (await isSpent(spend, giveBack, point))) return { verdict, giveBack };
  giveBack();
  verdict = point.decideWith(withoutGrant(held));
  return { verdict, giveBack: count(verdict, point) };
}

function count(verdict: Verdict, point: DecisionPoint): GiveBack {
  const effect = effectIn(verdict, 'count_usage');
  return effect === undefined ? () => {} : point.count(effect);
}

async function isSpent(
  spend: EffectOf<'spend_approval'>,
  giveBack: GiveBack,
  point: DecisionPoint,
): Promise<boolean> {
  try {
    return await point.spend(spend);
  } catch (error) {
    giveBack();
    throw error;
  }
}

/** Removes the grant that another call consumed first. */
function withoutGrant({ passport, grant }: Authority): Authority {
  return {
    passport:
      passport?.form === 'signed' && passport.approval !== undefined
        ? { ...passport, approval: { ...passport.approval, used: true } }
        : passport,
    grant: grant && { ...grant, used: true },
  };
}

/**
 * The budget data in a decision's event: present if the call counts, with the values that it adds,
 * so that the ledger explains every sum. `run` names the counting process.
 */
export function usageEvidence(verdict: Verdict, run: string): JsonObject {
  const effect = effectIn(verdict, 'count_usage');
  return effect === undefined ? {} : { usage: effect.sums, usage_run: run };
}
