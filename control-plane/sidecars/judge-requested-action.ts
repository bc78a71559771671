import { higherRisk, stricterTerms } from '../../shared/approval/stricter-terms.ts';
import { decide } from '../../shared/decision/decide.ts';
import { effectIn } from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarAudience } from '../../shared/passport/audience.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import type { Action, RiskTier } from '../../shared/vocabulary/action.ts';
import { type ApprovalTerms, mayProceed, type Verdict } from '../../shared/vocabulary/verdict.ts';
import { controlPlaneAudience, loadState } from '../actions/load-state.ts';
import type { Services } from '../core/services.ts';
import { leaseClaims } from '../passports/sidecar-passports.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

interface RequestedAction {
  readonly sidecar: Verified<Sidecar>;
  readonly action: Action;
  /** Passport that the agent presented, compact JWS; undefined: the sidecar's lease. */
  readonly passport?: string | undefined;
}

/** The control plane's own judgement of an action that a sidecar asks about. */
export interface OwnJudgement {
  readonly verdict: Verdict;
  /** Approval terms of the rules; undefined if the rules require no approval. */
  readonly terms: ApprovalTerms | undefined;
  readonly manifestHash: string | undefined;
}

/**
 * Judges an action of a sidecar's agent by the control plane's own state, so that a stale or
 * compromised sidecar cannot falsify the verdict shown to a human or relax the approval terms.
 * Throws `approval.action_denied` for an action that is denied even with an approval.
 */
export async function judgeRequestedAction(
  services: Services,
  asked: RequestedAction,
): Promise<OwnJudgement> {
  const state = await stateFor(services, asked);
  const verdict = decide(asked.action, state, services.clock.now());
  if (!mayProceed(verdict) && verdict.decision !== 'require_approval') throw denied(verdict);
  const terms = effectIn(verdict, 'open_approval')?.terms;
  return { verdict, terms, manifestHash: state.tool?.manifestHash };
}

function denied({ reasonCode, summary }: Verdict): GatewayError {
  return new GatewayError('approval.action_denied', {
    message: `No approval was opened: the control plane denies this action (${reasonCode}). ${summary}`,
    details: { denied_by: reasonCode },
  });
}

async function stateFor(
  services: Services,
  { sidecar, action, passport }: RequestedAction,
): Promise<DecisionState> {
  const { environment } = sidecar;
  const loaded = await loadState(services, {
    action,
    passport,
    point: 'enforcement',
    environment: environment as DecisionState['environment'],
  });
  const own =
    passport === undefined
      ? leaseOf(services, sidecar, { action, state: loaded })
      : loaded.passport;
  const isGeneral = own?.form === 'signed' && own.claims.aud === controlPlaneAudience;
  const audience = isGeneral ? controlPlaneAudience : sidecarAudience(sidecar.id);
  return { ...loaded, passport: own, audience };
}

/**
 * Claims that a lease of the sidecar would have now: everything that the sidecar's agent is
 * registered for.
 */
function leaseOf(
  { clock }: Pick<Services, 'clock'>,
  sidecar: Verified<Sidecar>,
  { action, state: { agent } }: { readonly action: Action; readonly state: DecisionState },
): PassportState | undefined {
  if (agent === undefined) return undefined;
  const claims = leaseClaims({
    sidecar: { ...sidecar, userId: action.userId },
    agent: { goal: agent.goal ?? null, capabilities: agent.capabilities },
    policyHash: '',
    jti: 'lease',
    issuedAt: new Date(clock.now()),
  });
  return { form: 'signed', claims, source: 'lease', revoked: false, use: 'claimed' };
}

interface Claimed {
  readonly terms: ApprovalTerms;
  readonly riskTier: RiskTier;
}

/** Combines the control plane's and the sidecar's terms; the stricter value wins. */
export function strictestOf({ verdict, terms }: OwnJudgement, claimed: Claimed): Claimed {
  const { channels, minRole, quorum } = claimed.terms;
  return {
    riskTier: higherRisk(verdict.riskTier, claimed.riskTier),
    // If the control plane's own rules require no approval, a grant covers one call only.
    terms:
      terms === undefined ? { channels, minRole, quorum } : stricterTerms(terms, claimed.terms),
  };
}
