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
}

/** The effect of that kind that a verdict asks for. */
export function effectIn<Kind extends Effect['kind']>(
  { effects }: Verdict,
  kind: Kind,
): EffectOf<Kind> | undefined {
  return effects.find((effect): effect is EffectOf<Kind> => effect.kind === kind);
}

/**
 * Decides, takes the passport's one use, spends the grant, in that order. What cannot be done is
 * decided again as undone, so that the verdict always says what really holds.
 */
export async function reachVerdict(
  passport: PassportState | undefined,
  point: DecisionPoint,
): Promise<Verdict> {
  let verdict = point.decideWith(passport);
  if (passport?.form !== 'signed') return verdict;
  let held = passport;
  const claim = effectIn(verdict, 'claim_passport');
  if (claim !== undefined) {
    held = { ...held, use: await point.claim(claim) };
    verdict = point.decideWith(held);
  }
  const spend = effectIn(verdict, 'spend_approval');
  if (spend === undefined || held.approval === undefined || (await point.spend(spend))) {
    return verdict;
  }
  return point.decideWith({ ...held, approval: { ...held.approval, used: true } });
}
