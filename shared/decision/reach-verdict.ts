import type { PassportState } from '../passport/passport-state.ts';
import type { Release } from '../usage/usage-book.ts';
import type { Action } from '../vocabulary/action.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { Effect, Verdict } from '../vocabulary/verdict.ts';

export type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/** An action, and the passport and grant that can authorise it. */
export interface DecisionInput {
  readonly action: Action;
  readonly passport: PassportState | undefined;
  /** A standing grant that may be consumed. */
  readonly grant?: ApprovalProof | undefined;
}

/**
 * How a program decides, and how it executes each effect. `Input` contains all data of one
 * decision, so that one `DecisionPoint` serves all decisions.
 */
export interface DecisionPoint<Input extends DecisionInput> {
  decideWith(input: Input): Verdict;
  /** Claims the single use of the passport. */
  claim(
    effect: EffectOf<'claim_passport'>,
    input: Input,
  ): Promise<'claimed' | 'replayed' | 'unavailable'>;
  /** Consumes the grant, or one use of it; false if none is left. */
  spend(effect: EffectOf<'spend_approval'>, input: Input): Promise<boolean>;
  /** Counts the call for budgets, in the same tick as the verdict. */
  count(effect: EffectOf<'count_usage'>, input: Input): Release;
}

/** A verdict whose effects were executed, except `open_approval`. */
export interface Reached {
  readonly verdict: Verdict;
  readonly action: Action;
  /**
   * The passport that the last evaluation used, with the result of its claim.
   */
  readonly passport: PassportState | undefined;
  /** Removes the call from the budgets; for a call that is not performed. */
  readonly release: Release;
}

const nothingCounted: Release = () => {};

/** The effect of this kind in a verdict, if any. */
export function effectIn<Kind extends Effect['kind']>(
  { effects }: Verdict,
  kind: Kind,
): EffectOf<Kind> | undefined {
  for (const effect of effects) if (effect.kind === kind) return effect as EffectOf<Kind>;
  return undefined;
}

/**
 * Decides, and executes the effects in this order: claims the passport, counts the call, consumes
 * the grant. Decides again after each claim, and if the grant was already consumed, so that the
 * verdict reflects the result. If consuming the grant throws, the count is released. Synchronous
 * unless a passport must be claimed or a grant consumed; verdict and count happen in the same tick.
 */
export function reachVerdict<Input extends DecisionInput>(
  input: Input,
  point: DecisionPoint<Input>,
): Reached | Promise<Reached> {
  const verdict = point.decideWith(input);
  const claim = effectIn(verdict, 'claim_passport');
  return claim === undefined
    ? countAndSpend(verdict, input, point)
    : claimAndDecide(claim, input, point);
}

async function claimAndDecide<Input extends DecisionInput>(
  claim: EffectOf<'claim_passport'>,
  input: Input,
  point: DecisionPoint<Input>,
): Promise<Reached> {
  const use = await point.claim(claim, input);
  const { passport } = input;
  const held = passport?.form === 'signed' ? { ...input, passport: { ...passport, use } } : input;
  return countAndSpend(point.decideWith(held), held, point);
}

function countAndSpend<Input extends DecisionInput>(
  verdict: Verdict,
  input: Input,
  point: DecisionPoint<Input>,
): Reached | Promise<Reached> {
  const reached = count(verdict, input, point);
  const spend = effectIn(verdict, 'spend_approval');
  return spend === undefined ? reached : spendOrDecide(reached, { spend, input, point });
}

function count<Input extends DecisionInput>(
  verdict: Verdict,
  input: Input,
  point: DecisionPoint<Input>,
): Reached {
  const { action, passport } = input;
  const effect = effectIn(verdict, 'count_usage');
  const release = effect === undefined ? nothingCounted : point.count(effect, input);
  return { verdict, action, passport, release };
}

interface Spending<Input extends DecisionInput> {
  readonly spend: EffectOf<'spend_approval'>;
  readonly input: Input;
  readonly point: DecisionPoint<Input>;
}

async function spendOrDecide<Input extends DecisionInput>(
  reached: Reached,
  { spend, input, point }: Spending<Input>,
): Promise<Reached> {
  let isSpent = false;
  try {
    isSpent = await point.spend(spend, input);
  } finally {
    if (!isSpent) reached.release();
  }
  if (isSpent) return reached;
  const left = withoutGrant(input);
  return count(point.decideWith(left), left, point);
}

/**
 * Returns the input for the evaluation after another caller consumed the approval or grant: marks
 * both as used.
 */
function withoutGrant<Input extends DecisionInput>(input: Input): Input {
  const { passport, grant } = input;
  const left =
    passport?.form === 'signed' && passport.approval !== undefined
      ? { ...passport, approval: { ...passport.approval, used: true } }
      : passport;
  return { ...input, passport: left, grant: grant && { ...grant, used: true } };
}

interface StandingGrants<Grant, Result extends Reached> {
  /** Read lazily, because a grant can be consumed while an earlier one is tried. */
  readonly grants: Iterable<Grant>;
  readonly reachWith: (grant: Grant) => Result | Promise<Result>;
}

/**
 * Decides again with each standing grant until the verdict no longer requires an approval. Releases
 * the counts of all other decisions, including `first`. Undefined if no grant suffices; then
 * `first` remains valid.
 */
export async function reachByStandingGrant<Grant, Result extends Reached>(
  first: Reached,
  { grants, reachWith }: StandingGrants<Grant, Result>,
): Promise<Result | undefined> {
  for (const grant of grants) {
    const reached = await reachWith(grant);
    if (reached.verdict.decision !== 'require_approval') {
      first.release();
      return reached;
    }
    reached.release();
  }
  return undefined;
}
