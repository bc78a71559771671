import { decisionEvidence } from '../../shared/decision/decision-evidence.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import type { ArgumentsSetting } from '../../shared/ledger/privacy/arguments-setting.ts';
import type { Action, Environment } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Services } from '../core/services.ts';
import type { SaltedEvent } from '../ledger/privacy/store-salts.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { UpstreamFacts } from './prepare-execution.ts';

export interface Decided {
  readonly action: Action;
  readonly point: DecisionState['point'];
  readonly environment: Environment;
  readonly verdict: Verdict;
  readonly approvalId?: number | undefined;
  /** Destination of the call, set at an enforcement point. */
  readonly upstream?: UpstreamFacts | undefined;
  readonly isAnswerKept?: boolean | undefined;
  /** Principal of the caller's API key. */
  readonly principal: string;
  /** Identifies the process run that counts the call. */
  readonly usageRun: string;
  /** Form in which the event stores the arguments; default: digest and shape. */
  readonly setting?: ArgumentsSetting | undefined;
}

/** Builds the event of a control-plane decision, with the salt of its argument digest. */
export function decisionEvent(decided: Decided, clock: Services['clock']): SaltedEvent {
  const { action, verdict, upstream } = decided;
  return decisionEvidence({
    action,
    verdict,
    source: 'control-plane',
    chainId: agentChain(action.agentId),
    nowMs: clock.now(),
    userId: action.userId,
    tool: action.tool,
    resource: action.resource,
    environment: decided.environment,
    approvalId: decided.approvalId,
    usageRun: decided.usageRun,
    setting: decided.setting,
    askedBy: decided.principal,
    point: decided.point,
    isAnswerKept: decided.isAnswerKept,
    upstream: upstream === undefined ? undefined : { ...upstream },
  });
}
