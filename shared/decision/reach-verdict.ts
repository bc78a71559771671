import type { PassportState } from '../passport/passport-state.ts';
import type { Release } from '../usage/usage-book.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { Effect, Verdict } from '../vocabulary/verdict.ts';

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/** By what authority an action is done: a passport, and a human's decision if it needs one. */
interface Authority {
  readonly passport: PassportState | undefined;
  /** A standing grant that may be used. */
  readonly grant?: ApprovalProof | undefined;
}

/** How a decision point decides, and how it carries out what only it can. */
interface DecisionPoint {
  decideWith(authority: Authority): Verdict;
  /** Takes the passport's one use. */
  claim(effect: EffectOf<'claim_passport'>): Promise<'claimed' | 'replayed' | 'unavailable'>;
  /** Uses up the grant, or one use of it; false when others were first. */
  spend(effect: EffectOf<'spend_approval'>): Promise<boolean>;
  /** Counts the call against budgets, in the same tick. */
  count(effect: EffectOf<'count_usage'>): Release;
}

/** A verdict that really holds. */
export interface Reached {
  readonly verdict: Verdict;
  /** Takes the call back out of the budgets, should it not go through after all. */
  readonly release: Release;
}

/** The effect of that kind that a verdict asks for. */
export function effectIn<Kind extends Effect['kind']>(
  { effects }: Verdict,
  kind: Kind,
): EffectOf<Kind> | undefined {
  return effects.find((effect): effect is EffectOf<Kind> => effect.kind === kind);
}

/**
 * Decides, takes the passport's one use, counts the call, spends the grant, in that order. What
 * cannot be done is decided again as undone, so that the verdict always says what really holds.
 * Nothing comes between a verdict and its counting.
 */
export async function reachVerdict(authority: Authority, point: DecisionPoint): Promise<Reached> {
  let held = authority;
  let verdict = point.decideWith(held);
  const claim = effectIn(verdict, 'claim_passport');
  if (claim !== undefined && held.passport?.form === 'signed') {
    held = { ...held, passport: { ...held.passport, use: await point.claim(claim) } };
    verdict = point.decideWith(held);
  }
  const release = count(verdict, point);
  const spend = effectIn(verdict, 'spend_approval');
  if (spend === undefined || (await isSpent(spend, release, point))) return { verdict, release };
  release();
  verdict = point.decideWith(withoutGrant(held));
  return { verdict, release: count(verdict, point) };
}

function count(verdict: Verdict, point: DecisionPoint): Release {
  const effect = effectIn(verdict, 'count_usage');
  return effect === undefined ? () => {} : point.count(effect);
}

async function isSpent(
  spend: EffectOf<'spend_approval'>,
  release: Release,
  point: DecisionPoint,
): Promise<boolean> {
  try {
    return await point.spend(spend);
  } catch (error) {
    release();
    throw error;
  }
}

/** The same when somebody else was first to use what a human granted. */
function withoutGrant({ passport, grant }: Authority): Authority {
  return {
    passport:
      passport?.form === 'signed' && passport.approval !== undefined
        ? { ...passport, approval: { ...passport.approval, used: true } }
        : passport,
    grant: grant && { ...grant, used: true },
  };
}
