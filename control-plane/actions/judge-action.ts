import { decide } from '../../shared/decision/decide.ts';
import { stepsFor } from '../../shared/decision/next-steps.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Action, Environment, Mode } from '../../shared/vocabulary/action.ts';
import { mayProceed, type Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Services } from '../core/services.ts';
import { toAnswerable } from '../platform/http/errors.ts';
import { executeEffects, type ReachedVerdict } from './execute-effects.ts';
import { loadState } from './load-state.ts';
import type { UpstreamFacts } from './prepare-execution.ts';

export interface Judging {
  readonly action: Action;
  /** Compact JWS. */
  readonly passport?: string | undefined;
  readonly point: DecisionState['point'];
  readonly environment: Environment;
  /**
   * Error that prevents the action even if policy allows it. The action is then denied with this
   * error.
   */
  readonly obstacle?: GatewayError | undefined;
  readonly upstream?: UpstreamFacts | undefined;
  /** Principal of the caller's API key. */
  readonly principal: string;
  /** Principals that may not decide on the approval, if one is opened; see `requestersOf`. */
  readonly requestedBy: readonly string[];
  /** True if a repeat gets the stored response even when sealing the decision fails. */
  readonly isAnswerKept?: boolean | undefined;
}

export interface ReachedAction extends ReachedVerdict {
  /** Set if the decision is a denial because of an internal failure. */
  readonly failure?: GatewayError | undefined;
}

/** Judges one action and executes the effects of the verdict. An internal failure is a denial. */
export async function judgeAction(services: Services, judging: Judging): Promise<ReachedAction> {
  const { action, principal, requestedBy } = judging;
  try {
    const state = await loadState(services, judging);
    const obstacle = obstacleOf(judging, state);
    if (obstacle !== undefined) {
      const verdict = denyForObstacle(decide(action, state, services.clock.now()), obstacle);
      return { verdict, release: () => {} };
    }
    return await executeEffects(services, { action, state, principal, requestedBy });
  } catch (thrown) {
    const failure = toAnswerable(thrown);
    services.log.error({ err: failure }, 'a decision failed; the action was denied');
    return { verdict: failedVerdict(failure, action.mode), failure, release: () => {} };
  }
}

/**
 * Returns the error that prevents the action, if any. No action is performed for an unknown or
 * disabled agent, in any mode.
 */
function obstacleOf(
  { action, obstacle, point }: Judging,
  { agent, agentDisabled }: DecisionState,
): GatewayError | undefined {
  if (point !== 'enforcement' || agent !== undefined) return obstacle;
  if (agentDisabled === true) return new GatewayError('agent.disabled');
  return new GatewayError('agent.not_found', {
    message: `No agent ${action.agentId} is registered.`,
  });
}

/**
 * Denies an action that cannot be performed. The denial consumes no passport and opens no approval.
 */
function denyForObstacle(verdict: Verdict, { code, message }: GatewayError): Verdict {
  if (!mayProceed(verdict) && verdict.decision !== 'require_approval') {
    return { ...verdict, effects: [] };
  }
  return {
    ...verdict,
    decision: 'deny',
    reasonCode: code,
    summary: message,
    enforced: true,
    matchedRules: [],
    policyHash: undefined,
    nextSteps: stepsFor(code),
    effects: [],
  };
}

/**
 * Returns the denial that replaces a decision that failed. The denial is enforced in every mode.
 */
function failedVerdict({ code, message }: GatewayError, mode: Mode | undefined): Verdict {
  return {
    decision: 'deny',
    reasonCode: code,
    summary: message,
    mode: mode ?? 'enforce',
    enforced: true,
    matchedRules: [],
    observed: [],
    riskTier: 'medium',
    nextSteps: ['Try again; if the problem continues, report it to the operator of the gateway.'],
    effects: [],
  };
}
