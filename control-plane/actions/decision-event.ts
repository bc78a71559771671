import { seenRecord } from '../../shared/decision/context.ts';
import { usageEvidence } from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { argumentsEvidence } from '../../shared/ledger/privacy/arguments.ts';
import type { ArgumentsSetting } from '../../shared/ledger/privacy/arguments-setting.ts';
import type { Action, Environment } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Services } from '../core/services.ts';
import type { SaltedEvent } from '../ledger/privacy/store-salts.ts';
import { agentChain, newEvent } from '../ledger/sealing/new-event.ts';
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
  /** Which form of the arguments the event keeps; default: digest and shape. */
  readonly setting?: ArgumentsSetting | undefined;
}

/**
 * Builds the event of a decision and the salt that keys its digest of the arguments. The salt is
 * stored separately and encrypted, so that values cannot be guessed from the ledger and can be
 * erased.
 */
export function decisionEvent(
  { action, point, environment, verdict, approvalId, upstream, isAnswerKept, ...by }: Decided,
  clock: Services['clock'],
): SaltedEvent {
  const { evidence, salt, kept } = argumentsEvidence(action.args, by.setting, action.mcp);
  const event = newEvent(
    {
      type: 'decision',
      chainId: agentChain(action.agentId),
      agentId: action.agentId,
      userId: action.userId,
      tool: action.tool,
      resource: action.resource,
      decision: verdict.decision,
      reasonCode: verdict.reasonCode,
      data: {
        answer_kept: isAnswerKept || undefined,
        approval_id: approvalId,
        args_digest: evidence.args_digest,
        args_kept_digest: evidence.args_kept_digest,
        args_shape: evidence.args_shape,
        asked_by: by.principal,
        enforced: verdict.enforced,
        environment,
        goal: action.goal,
        manifest_hash: verdict.toolManifestHash,
        matched_rules: verdict.matchedRules,
        mcp_digest: evidence.mcp_digest,
        mcp_shape: evidence.mcp_shape,
        mode: verdict.mode,
        observed: verdict.observed.length === 0 ? undefined : verdict.observed.map(observedOf),
        passport_jti: verdict.passportJti,
        point,
        policy_hash: verdict.policyHash,
        risk_tier: verdict.riskTier,
        seen: seenRecord(verdict.seen),
        upstream: upstream === undefined ? undefined : { ...upstream },
        ...usageEvidence(verdict, by.usageRun),
      },
    },
    clock,
  );
  return { event, salt, args: kept };
}

function observedOf({ rule, decision, reason }: Verdict['observed'][number]) {
  return { decision, reason, rule };
}
