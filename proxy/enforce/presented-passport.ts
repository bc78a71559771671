import { anyUser } from '../../shared/passport/claims.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import { claimMarginMs } from '../../shared/passport/single-use-claim.ts';
import { readPassportAsync } from '../../shared/passport/verify.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import type { Replica } from '../replica/replica.ts';
import { type JudgeDeps, type Judgement, reachJudgement } from './reach-judgement.ts';

/**
 * Judges with a passport that the agent presents. The user is taken from the passport, if the
 * passport names one.
 */
export async function judgePresented(
  action: Action,
  presented: string,
  deps: JudgeDeps,
): Promise<Judgement> {
  const passport = await readPresented(presented, deps);
  const userId = userOf(passport, action) ?? action.userId;
  const judged = await reachJudgement({ action: { ...action, userId }, passport, deps });
  return { ...judged, presented };
}

/** The user in the passport, if the passport belongs to this agent and names a user. */
function userOf(passport: PassportState, { agentId }: Action): string | undefined {
  if (passport.form !== 'signed' || passport.claims.sub !== agentId) return undefined;
  return passport.claims.user_id === anyUser ? undefined : passport.claims.user_id;
}

/** Verifies a passport; the caller must still claim its single use. */
export async function readPresented(
  token: string,
  { replica }: { readonly replica: Replica },
): Promise<PassportState> {
  const reading = await readPassportAsync(token, replica.passportKeys);
  if (reading.form !== 'signed') return reading;
  const { claims } = reading;
  const approved =
    claims.approval_hash === null ? undefined : replica.approvalByHash(claims.approval_hash);
  return {
    form: 'signed',
    claims,
    source: 'presented',
    revoked: replica.isRevoked(claims.jti),
    use: 'unclaimed',
    approval: approved && proofOf(approved),
  };
}

export function proofOf(approved: DeliveredApproval): ApprovalProof {
  return {
    approvalId: approved.id,
    eventHash: approved.eventHash ?? '',
    actionDigest: approved.effectiveDigest ?? approved.actionDigest,
    granted: approved.status === 'approved' || approved.status === 'modified',
    used: approved.used === true,
    expiresAtMs: approved.expiresAtMs,
    deciders: approved.deciders,
    standing: approved.grant,
  };
}

/**
 * Passports that were presented and used here. An entry is kept beyond the passport's expiry,
 * because clocks may differ. A second use is refused here even if the claim on the bus was deleted.
 */
export class UsedPassports {
  readonly #forgetAtMs = new Map<string, number>();
  #sweepAt = 1_000;

  /** Records a use of a passport. Returns false if the passport was used before. */
  add(
    jti: string,
    { expiresAtMs, nowMs }: { readonly expiresAtMs: number; readonly nowMs: number },
  ): boolean {
    if (this.#forgetAtMs.has(jti)) return false;
    this.#forgetAtMs.set(jti, expiresAtMs + claimMarginMs);
    if (this.#forgetAtMs.size >= this.#sweepAt) this.#sweep(nowMs);
    return true;
  }

  /** The next sweep runs at twice the remaining size, so that the cost per use stays constant. */
  #sweep(nowMs: number): void {
    for (const [jti, forgetAtMs] of this.#forgetAtMs) {
      if (forgetAtMs <= nowMs) this.#forgetAtMs.delete(jti);
    }
    this.#sweepAt = Math.max(1_000, this.#forgetAtMs.size * 2);
  }
}
