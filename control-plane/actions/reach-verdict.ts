import { digestOf } from '../../shared/approval/action-digest.ts';
import type { Action } from '../../shared/decision/action.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { DecisionState, PassportState } from '../../shared/decision/state.ts';
import type { Effect, Verdict } from '../../shared/decision/verdict.ts';
import { errorKinds, GatewayError } from '../../shared/errors.ts';
import { idTimeMs } from '../../shared/ids.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { spendApproval } from '../approvals/spend-approval.ts';
import { claimPassport } from '../passports/claim-passport.ts';
import type { Services } from '../services.ts';

export interface ReachedVerdict {
  readonly verdict: Verdict;
  /** The approval that the action waits for. */
  readonly approvalId?: number | undefined;
}

interface Case {
  readonly action: Action;
  readonly state: DecisionState;
  /** Who asks: recorded where a grant is used. */
  readonly principal: string;
}

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

/**
 * Decides, and carries out what the verdict asks for: takes the passport's one use, spends the
 * grant, opens the approval, in that order. What cannot be done is decided again as undone, so
 * that the answer always says what really holds.
 */
export async function reachVerdict(services: Services, one: Case): Promise<ReachedVerdict> {
  const first = decideNow(services, one);
  const claimed = await claim(services, one, first);
  const spent = await spend(services, claimed.one, claimed.verdict);
  return ask(services, claimed.one, spent);
}

function decideNow({ clock }: Services, { action, state }: Case): Verdict {
  return decide(action, state, clock.now());
}

function effectIn<Kind extends Effect['kind']>(
  { effects }: Verdict,
  kind: Kind,
): EffectOf<Kind> | undefined {
  return effects.find((effect): effect is EffectOf<Kind> => effect.kind === kind);
}

async function claim(
  services: Services,
  one: Case,
  verdict: Verdict,
): Promise<{ readonly one: Case; readonly verdict: Verdict }> {
  const effect = effectIn(verdict, 'claim_passport');
  if (effect === undefined) return { one, verdict };
  const use = await claimPassport(services, one.action.tenantId, effect);
  const next = withPassport(one, { use });
  return { one: next, verdict: decideNow(services, next) };
}

async function spend(services: Services, one: Case, verdict: Verdict): Promise<Verdict> {
  const effect = effectIn(verdict, 'spend_approval');
  if (effect === undefined) return verdict;
  const { approvalId, eventHash } = effect;
  const { tenantId } = one.action;
  const usedBy = one.principal;
  if (await spendApproval(services, tenantId, { approvalId, eventHash, usedBy })) return verdict;
  const { passport } = one.state;
  const proof = passport?.form === 'signed' ? passport.approval : undefined;
  if (proof === undefined) throw new Error('an approval was to be spent that no passport names');
  return decideNow(services, withPassport(one, { approval: { ...proof, used: true } }));
}

function withPassport(
  one: Case,
  change: Partial<Pick<Extract<PassportState, { form: 'signed' }>, 'use' | 'approval'>>,
): Case {
  const { passport } = one.state;
  if (passport?.form !== 'signed') throw new Error('there is no passport to take the use of');
  return { ...one, state: { ...one.state, passport: { ...passport, ...change } } };
}

async function ask(services: Services, one: Case, verdict: Verdict): Promise<ReachedVerdict> {
  const effect = effectIn(verdict, 'open_approval');
  if (effect === undefined) return { verdict };
  const { action, state } = one;
  try {
    const { id } = await openApproval(services, {
      action,
      actionDigest: digestOf(action, state.tool?.manifestHash),
      terms: effect.terms,
      riskTier: verdict.riskTier,
      reasonCode: verdict.reasonCode,
      summary: verdict.summary,
      matchedRules: verdict.matchedRules,
      policyHash: verdict.policyHash,
      manifestHash: state.tool?.manifestHash,
      authenticatedAtMs: authenticatedAtMs(one),
    });
    return { verdict, approvalId: id };
  } catch (thrown) {
    services.log.warn({ err: thrown }, 'an approval could not be opened');
    const tooMany = thrown instanceof GatewayError && thrown.code === 'approval.too_many_open';
    return { verdict: refuse(verdict, tooMany ? thrown.code : 'approval.unavailable') };
  }
}

/** When the user last proved to be there: by a passport of their own that came with the action. */
function authenticatedAtMs({ action, state: { passport } }: Case): number | undefined {
  if (passport?.form !== 'signed' || passport.claims.user_id !== action.userId) return undefined;
  return idTimeMs(passport.claims.jti);
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
