import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import { decide } from '../../shared/decision/decide.ts';
import {
  type DecisionInput,
  type DecisionPoint,
  type EffectOf,
  type Reached,
  reachVerdict,
} from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { errorFamily } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import { claimPassport } from '../../shared/passport/single-use-claim.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Identity } from '../base/identity.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { LiveDrift } from '../mcp/live-drift.ts';
import { recordedTool } from '../records/call-records.ts';
import type { Replica } from '../replica/replica.ts';
import type { UsageCounter } from '../replica/usage-counter.ts';

export interface JudgeDeps {
  readonly identity: Identity;
  readonly replica: Replica;
  readonly bus: Bus;
  readonly liveDrift: LiveDrift;
  readonly controlPlane: ControlPlane;
  readonly clock: Clock;
  readonly log: Log;
  /** Grants that were consumed here, but that the replica may still show as unused. */
  readonly consumedApprovals: Set<number>;
  /** Refuses a second use here even if the claim on the bus was deleted. */
  readonly usedPassports: {
    add(jti: string, use: { readonly expiresAtMs: number; readonly nowMs: number }): boolean;
  };
  readonly usage: UsageCounter;
}

/**
 * A judged action. Only this action may be performed; after `modify`, it has the approver's
 * arguments.
 */
export interface Judgement extends Reached {
  /** The approval that allowed or refused this action, or for which the action waits. */
  readonly approval?: DeliveredApproval | undefined;
  /** The passport that the agent presented, compact JWS; its one use is claimed. */
  readonly presented?: string | undefined;
}

interface JudgeInput extends DecisionInput {
  readonly passport: PassportState;
  readonly deps: JudgeDeps;
}

const agentAudience = 'gateway://agents';
export const noLease = { form: 'no_lease' } as const;

/** How the sidecar decides and executes the effects of a verdict. */
const sidecarPoint: DecisionPoint<JudgeInput> = {
  decideWith: (input) => decide(input.action, stateFor(input), input.deps.clock.now()),
  claim: (effect, { deps }) => claimOnce(effect, deps),
  spend: ({ approvalId }, { deps }) => consumeApproval(approvalId, deps),
  count: ({ sums }, { action, deps }) => deps.usage.count(recordedTool(action.tool), sums),
};

/**
 * Decides one action, and counts it for budgets in the same tick. Returns at once, or a promise if
 * a passport must be claimed or an approval consumed.
 */
export function reachJudgement(input: JudgeInput): Judgement | Promise<Judgement> {
  return reachVerdict(input, sidecarPoint);
}

async function claimOnce(
  claim: EffectOf<'claim_passport'>,
  { bus, controlPlane, identity, clock, log, usedPassports }: JudgeDeps,
): Promise<'claimed' | 'replayed' | 'unavailable'> {
  const nowMs = clock.now();
  const claimed = await claimPassport(claim, {
    bus,
    tenantId: identity.tenantId,
    nowMs,
    claimDurably: controlPlane.claimPassport,
    onFailure: (err) => log.warn({ err, jti: claim.jti }, 'a passport could not be claimed'),
  });
  if (claimed !== 'claimed') return claimed;
  return usedPassports.add(claim.jti, { ...claim, nowMs }) ? 'claimed' : 'replayed';
}

/** Consumes a granted approval; false if it was used before. Any other failure is thrown. */
async function consumeApproval(
  approvalId: number,
  { controlPlane, replica, consumedApprovals }: JudgeDeps,
): Promise<boolean> {
  const isStanding = replica.approvalById(approvalId)?.grant !== undefined;
  try {
    await controlPlane.spendApproval(approvalId);
    if (!isStanding) consumedApprovals.add(approvalId);
    return true;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (isStanding && error.kind.grant === 'over') {
      // A standing grant that is no longer valid has no effect, so a human must decide.
      consumedApprovals.add(approvalId);
      return false;
    }
    if (error.code === 'approval.used') return false;
    if (errorFamily(error.code) === 'approval') throw error;
    throw new GatewayError('approval.unavailable', { cause: error });
  }
}

function stateFor({ action, passport, grant, deps }: JudgeInput): DecisionState {
  const { replica, identity, liveDrift } = deps;
  return {
    point: 'enforcement',
    audience: audienceOf(passport, identity),
    tenant: replica.tenant,
    environment: identity.environment,
    killSwitches: replica.killSwitches,
    agent: replica.agent(action.agentId),
    agentDisabled: replica.revocationOf(action.agentId) === 'agent.disabled',
    user: replica.user(action.userId),
    tool: liveDrift.recordOf(action.tool),
    passport,
    grant,
    policies: replica.policies,
    usage: needsUsage(action, deps) ? deps.usage.of(recordedTool(action.tool)) : undefined,
  };
}

export function needsUsage({ tool, agentId }: Action, { replica }: JudgeDeps): boolean {
  return replica.policies.usage.needsOf(tool, agentId) !== undefined;
}

/**
 * The audience that a passport must have: this sidecar's own, or `gateway://agents` if a presented
 * passport was issued for that audience.
 */
function audienceOf(passport: PassportState, { sidecarId }: Identity): string {
  const isGeneral =
    passport.form === 'signed' &&
    passport.source === 'presented' &&
    passport.claims.aud === agentAudience;
  return isGeneral ? agentAudience : `sidecar://${sidecarId}`;
}
