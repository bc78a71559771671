import type { ErrorCode } from '../errors/error-kinds.ts';
import { matchesAnyGlob } from '../glob/glob.ts';
import { firstPassportFailure, listGlobs } from '../passport/check.ts';
import type { Action, Mode, RiskTier } from '../vocabulary/action.ts';
import type { ToolRecord } from '../vocabulary/tool-record.ts';
import {
  type ApprovalTerms,
  type Effect,
  mayProceed,
  type Verdict,
} from '../vocabulary/verdict.ts';
import { seenFacts } from './context.ts';
import { deny, type Finding, fromOutcome, satisfied, withReset } from './finding.ts';
import { judgeGrant, riskOf } from './grant.ts';
import { blockingSwitch } from './kill-switch.ts';
import { effectiveMode, isEnforcing } from './mode.ts';
import { stepsFor, stepsForDecision } from './next-steps.ts';
import type { DecisionState } from './state.ts';
import { countEffect, evaluateWithUsage } from './usage.ts';

/** The inputs of one decision. */
interface DecisionInput {
  readonly action: Action;
  readonly state: DecisionState;
  readonly nowMs: number;
  readonly mode: Mode;
}

/**
 * Decides one action. The stages, in this order: mode, kill switches and disabled agents, identity,
 * passport, tool, policy, approval; the first refusal ends the evaluation. Pure and synchronous:
 * the verdict lists side effects, and the caller executes them before it acts on the verdict. A
 * passport that passes its checks and is not claimed yet must be claimed, whatever the other stages
 * decide. If the claim fails, the caller calls `decide` again with the passport's `use` set to
 * `replayed` or `unavailable`.
 */
export function decide(action: Action, state: DecisionState, nowMs: number): Verdict {
  const input: DecisionInput = { action, state, nowMs, mode: effectiveMode(action, state, nowMs) };

  const blocked = judgeKillSwitches(input) ?? judgeDisabled(input);
  if (blocked !== undefined) return { ...conclude(input, blocked), enforced: true };

  const refused = judgeIdentity(input) ?? judgePassport(input);
  if (refused !== undefined) return countIfDone(input, applyMode(conclude(input, refused)));

  const claim = claimEffect(input);
  const finding = judgeTool(input) ?? judgePolicy(input);
  return countIfDone(input, applyMode(conclude(input, finding, claim)));
}

function judgeKillSwitches({ action, state, nowMs }: DecisionInput): Finding | undefined {
  const armed = blockingSwitch(state.killSwitches, action, nowMs);
  return armed && deny('runtime.kill_switch', `A kill switch blocks this call: ${armed.reason}`);
}

/**
 * Denies the calls of a disabled agent in every mode, like a kill switch, because an operator
 * disabled the agent.
 */
function judgeDisabled({ action, state }: DecisionInput): Finding | undefined {
  return state.agentDisabled === true
    ? deny('agent.disabled', `Agent ${action.agentId} is disabled.`)
    : undefined;
}

/**
 * Denies an action of another tenant or another agent. Denies every action of an unknown agent at
 * enforcement and in mode `strict`. In the other modes, preflight can evaluate such actions.
 */
function judgeIdentity({ action, state, mode }: DecisionInput): Finding | undefined {
  const { agent, tenant, point } = state;
  if (action.tenantId !== tenant.id) return deny('tenant.mismatch');
  if (agent === undefined) {
    return mode === 'strict' || point === 'enforcement'
      ? deny('agent.not_found', `No agent ${action.agentId} is registered.`)
      : undefined;
  }
  return agent.id === action.agentId ? undefined : deny('agent.mismatch');
}

function judgePassport({ action, state, nowMs, mode }: DecisionInput): Finding | undefined {
  if (state.passport === undefined) {
    return mode === 'strict' ? deny('passport.missing') : judgeCapabilities(action, state);
  }
  const failed = firstPassportFailure(state.passport, {
    tenantId: state.tenant.id,
    nowMs,
    audience: action.audience ?? state.audience,
    action,
    capabilities: state.agent?.capabilities,
  });
  return failed && deny(failed.reason_code, failed.message);
}

/**
 * Denies an action outside the agent's capabilities, because these limit actions without a
 * passport. Preflight can evaluate any action.
 */
function judgeCapabilities({ tool }: Action, { point, agent }: DecisionState): Finding | undefined {
  if (point === 'preflight' || agent === undefined) return undefined;
  return matchesAnyGlob(agent.capabilities, tool, 'tool')
    ? undefined
    : deny(
        'passport.tool_not_allowed',
        `The agent's capabilities (${listGlobs(agent.capabilities)}) do not cover ${tool}.`,
      );
}

/**
 * Returns the effect that claims the passport, if it must be claimed. Only a presented passport must
 * be: the passports of a lease have numbers, and the sidecar uses each number once.
 */
function claimEffect({ state }: DecisionInput): Effect | undefined {
  const { passport, tool } = state;
  if (passport?.form !== 'signed') return undefined;
  if (passport.source !== 'presented' || passport.use !== 'unclaimed') return undefined;
  const { jti, exp, risk_tier } = passport.claims;
  return {
    kind: 'claim_passport',
    jti,
    expiresAtMs: exp * 1000,
    durable: isHigh(risk_tier) || isHigh(tool?.riskTier),
  };
}

function isHigh(tier: RiskTier | undefined): boolean {
  return tier === 'high' || tier === 'critical';
}

function judgeTool({ action, state, mode }: DecisionInput): Finding | undefined {
  const { tool } = state;
  if (tool === undefined) {
    return mode === 'strict'
      ? deny('tool.unregistered', `No tool ${action.tool} is registered.`)
      : undefined;
  }
  const unapproved = judgeManifest(tool);
  if (unapproved !== undefined) return unapproved;
  const problem = tool.validateArgs?.(action.args);
  return problem === undefined ? undefined : deny('args.schema_invalid', problem);
}

function judgeManifest(tool: ToolRecord): Finding | undefined {
  switch (tool.approvalStatus) {
    case 'approved':
      return tool.approvedHash === undefined || tool.approvedHash === tool.manifestHash
        ? undefined
        : reapprove(tool, 'tool.manifest_changed');
    case 'reapproval_required':
      return reapprove(tool, 'tool.reapproval_required');
    case 'pending_approval':
      return {
        decision: 'require_tool_reapproval',
        reasonCode: 'tool.pending_approval',
        summary: `The tool ${tool.name} has not been approved yet.`,
        nextSteps: stepsFor('tool.pending_approval'),
      };
    case 'rejected':
      return deny('tool.rejected', `A human rejected the tool ${tool.name}.`);
  }
}

function reapprove({ name, driftReason }: ToolRecord, byDefault: ErrorCode): Finding {
  return {
    decision: 'require_tool_reapproval',
    reasonCode: driftReason ?? byDefault,
    summary: `The tool ${name} changed since it was approved${driftReason === undefined ? '' : ` (${driftReason})`}.`,
    nextSteps: stepsForDecision('require_tool_reapproval'),
  };
}

/**
 * Evaluates the policies and an approval that may satisfy them. An invalid approval refuses the
 * action even if policies allow it.
 */
function judgePolicy(input: DecisionInput): Finding {
  const { action, state, nowMs } = input;
  const { outcome, isUnknown, resetsAtMs } = evaluateWithUsage(action, state, nowMs);
  if (isUnknown === true) return { ...deny('usage.unknown'), outcome };
  switch (outcome.decision) {
    case 'deny':
    case 'require_tool_reapproval':
      return withReset(fromOutcome(outcome), resetsAtMs);
    case 'allow':
    case 'warn':
    case 'require_approval': {
      const isAsked = outcome.decision === 'require_approval';
      const terms = isAsked ? (outcome.approval ?? termsByDefault) : undefined;
      const grant = judgeGrant(action, state, { nowMs, terms });
      if (grant?.refused !== undefined) return { ...deny(grant.refused, grant.summary), outcome };
      if (terms === undefined) return fromOutcome(outcome, grant?.effect);
      if (grant !== undefined) return satisfied(outcome, grant.effect);
      return withReset(fromOutcome(outcome, { kind: 'open_approval', terms }), resetsAtMs);
    }
  }
}

/**
 * Adds `count_usage` to the verdict of every call that proceeds, including calls whose refusal is
 * not enforced.
 */
function countIfDone({ action, state }: DecisionInput, verdict: Verdict): Verdict {
  const effect = mayProceed(verdict) ? countEffect(action, state) : undefined;
  return effect === undefined ? verdict : { ...verdict, effects: [...verdict.effects, effect] };
}

const termsByDefault: ApprovalTerms = { channels: [], minRole: 'approver', quorum: 1 };

const nothing: readonly never[] = [];

function conclude(
  { action, state, mode }: DecisionInput,
  finding: Finding,
  claim?: Effect,
): Verdict {
  const { outcome, effect } = finding;
  const { tool, passport } = state;
  return {
    decision: finding.decision,
    reasonCode: finding.reasonCode,
    summary: finding.summary,
    mode,
    enforced: isEnforcing(mode),
    matchedRules: outcome?.matchedRules ?? nothing,
    observed: outcome?.observed ?? nothing,
    riskTier: riskOf(state) ?? 'medium',
    toolManifestHash: tool?.manifestHash,
    policyHash: outcome?.policyHash,
    nextSteps: finding.nextSteps,
    resetsAtMs: finding.resetsAtMs,
    effects: effectsOf(claim, effect, mode),
    passportJti: passport?.form === 'signed' ? passport.claims.jti : undefined,
    seen: seenFacts(action, state),
  };
}

/** The effects of a verdict. `open_approval` is omitted if the mode does not hold calls. */
function effectsOf(
  claim: Effect | undefined,
  effect: Effect | undefined,
  mode: Mode,
): readonly Effect[] {
  const due = effect?.kind === 'open_approval' && !isEnforcing(mode) ? undefined : effect;
  if (claim === undefined) return due === undefined ? nothing : [due];
  return due === undefined ? [claim] : [claim, due];
}

/** Converts a refusal to a warning with the refusal's reason, if the mode is `warn`. */
function applyMode(verdict: Verdict): Verdict {
  const { mode, decision } = verdict;
  if (mode !== 'warn' || decision === 'allow' || decision === 'warn') return verdict;
  return { ...verdict, decision: 'warn' };
}
