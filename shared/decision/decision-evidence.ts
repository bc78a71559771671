import { newId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { EvidenceEvent } from '../ledger/event.ts';
import { argumentsEvidence } from '../ledger/privacy/arguments.ts';
import type { ArgumentsSetting } from '../ledger/privacy/arguments-setting.ts';
import type { Action, Environment } from '../vocabulary/action.ts';
import type { Verdict } from '../vocabulary/verdict.ts';
import { seenRecord } from './context.ts';
import { effectIn } from './reach-verdict.ts';
import type { DecisionState } from './state.ts';

/** A decision, and facts that only the deciding program knows. */
interface DecisionFacts {
  readonly action: Action;
  readonly verdict: Verdict;
  /** `control-plane`, or `sidecar:<id>`. */
  readonly source: string;
  readonly chainId: string;
  readonly nowMs: number;
  /** The event's user; if the action's user differs, it is recorded as `acted_for`. */
  readonly userId: string;
  /** `tool` and `resource` have the form that the ledger accepts. */
  readonly tool: string;
  readonly resource: string;
  readonly environment: Environment;
  readonly approvalId?: number | undefined;
  /** Identifies the process run that counts the call for budgets. */
  readonly usageRun: string;
  /** The form in which arguments are stored. Default: digest and shape. */
  readonly setting?: ArgumentsSetting | undefined;
  /**
   * Principal of the caller's API key. Only the control plane sets this field and the three after
   * it.
   */
  readonly askedBy?: string | undefined;
  readonly point?: DecisionState['point'] | undefined;
  readonly isAnswerKept?: boolean | undefined;
  readonly upstream?: JsonObject | undefined;
  /** Destination of the call. Only sidecars set this field and `method`. */
  readonly host?: string | undefined;
  readonly method?: string | undefined;
}

/** The event of a decision, and the data that is encrypted and stored separately. */
interface DecisionEvidence {
  readonly event: EvidenceEvent;
  /** Key of the argument digests, base64. */
  readonly salt: string;
  /** Redacted arguments, if the tenant stores them. */
  readonly args: JsonObject | undefined;
}

/**
 * Builds the event of a decision, with a new id and a new salt. The salt keys the digests of the
 * arguments, so that values cannot be guessed from the ledger and can be erased.
 */
export function decisionEvidence(facts: DecisionFacts): DecisionEvidence {
  const { action, verdict, nowMs } = facts;
  const { evidence, salt, kept } = argumentsEvidence(action.args, facts.setting, action.mcp);
  const event: EvidenceEvent = {
    agent_id: action.agentId,
    chain_id: facts.chainId,
    data: decisionData(facts, evidence),
    decision: verdict.decision,
    id: newId('ev', nowMs),
    occurred_at: new Date(nowMs).toISOString(),
    reason_code: verdict.reasonCode,
    resource: facts.resource,
    source: facts.source,
    tool: facts.tool,
    type: 'decision',
    user_id: facts.userId,
  };
  return { event, salt, args: kept };
}

/** Members in canonical order, so that serialisation need not sort them. */
function decisionData(
  facts: DecisionFacts,
  evidence: ReturnType<typeof argumentsEvidence>['evidence'],
): JsonObject {
  const { action, verdict } = facts;
  const counted = effectIn(verdict, 'count_usage');
  return {
    acted_for: action.userId === facts.userId ? undefined : action.userId,
    answer_kept: facts.isAnswerKept || undefined,
    approval_id: facts.approvalId,
    args_digest: evidence.args_digest,
    args_kept_digest: evidence.args_kept_digest,
    args_shape: evidence.args_shape,
    asked_by: facts.askedBy,
    enforced: verdict.enforced,
    environment: facts.environment,
    goal: action.goal,
    host: facts.host,
    manifest_hash: verdict.toolManifestHash,
    matched_rules: verdict.matchedRules,
    mcp_digest: evidence.mcp_digest,
    mcp_shape: evidence.mcp_shape,
    method: facts.method,
    mode: verdict.mode,
    observed: verdict.observed.length === 0 ? undefined : verdict.observed.map(observedOf),
    passport_jti: verdict.passportJti,
    point: facts.point,
    policy_hash: verdict.policyHash,
    risk_tier: verdict.riskTier,
    seen: seenRecord(verdict.seen),
    upstream: facts.upstream,
    // Set if the call counts towards a budget, so that the ledger explains every sum of a budget.
    usage: counted?.sums,
    usage_run: counted === undefined ? undefined : facts.usageRun,
  };
}

function observedOf({ rule, decision, reason }: Verdict['observed'][number]): JsonObject {
  return { decision, reason, rule };
}
