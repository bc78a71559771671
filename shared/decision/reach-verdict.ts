import type { GiveBack } from '../usage/usage-book.ts';
import type { PassportState } from './state.ts';
import type { Effect, Verdict } from './verdict.ts';

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/** How a decision point decides, and how it carries out what only it can. */
interface DecisionPoint {
  decideWith(passport: PassportState | undefined): Verdict;
  /** Takes the passport's one use. */
  claim(effect: EffectOf<'claim_passport'>): Promise<'claimed' | 'replayed' | 'unavailable'>;
  /** Uses up the grant; false when somebody was first. */
  spend(effect: EffectOf<'spend_approval'>): Promise<boolean>;
  /** Counts the call against budgets, in the same tick. */
  count(effect: EffectOf<'count_usage'>): GiveBack;
}

/** A verdict that really holds. */
export interface Reached {
  readonly verdict: Verdict;
  /** Takes the call back out of the budgets, should it not go through after all. */
  readonly giveBack: GiveBack;
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
export async function reachVerdict(
  passport: PassportState | undefined,
  point: DecisionPoint,
): Promise<Reached> {
  let held = passport;
  let verdict = point.decideWith(held);
  const claim = effectIn(verdict, 'claim_passport');
  if (held?.form === 'signed' && claim !== undefined) {
    held = { ...held, use: await point.claim(claim) };
    verdict = point.decideWith(held);
  }
  const giveBack = count(verdict, point);
  const spend = effectIn(verdict, 'spend_approval');
  if (held?.form !== 'signed' || spend === undefined || held.approval === undefined) {
    return { verdict, giveBack };
  }
  if (await spent(spend, giveBack, point)) return { verdict, giveBack };
  giveBack();
  verdict = point.decideWith({ ...held, approval: { ...held.approval, used: true } });
  return { verdict, giveBack: count(verdict, point) };
}

function count(verdict: Verdict, point: DecisionPoint): GiveBack {
  const effect = effectIn(verdict, 'count_usage');
  return effect === undefined ? () => {} : point.count(effect);
}

async function spent(
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
