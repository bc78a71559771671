import { digestOf } from '../../shared/approval/action-digest.ts';
import type {
  SimulatedAction,
  SimulateRequest,
  Simulation,
} from '../../shared/contract/policies/simulation.ts';
import { decide } from '../../shared/decision/decide.ts';
import { explainVerdict } from '../../shared/decision/explain.ts';
import { effectIn } from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { contextWithUsage } from '../../shared/decision/usage.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import { compileInSteps } from '../../shared/policy/engine/compile.ts';
import type { PolicySet } from '../../shared/policy/engine/policy-set.ts';
import { compileTrace } from '../../shared/policy/engine/trace.ts';
import type { Action, Mode } from '../../shared/vocabulary/action.ts';
import type { Decision, Verdict } from '../../shared/vocabulary/verdict.ts';
import { loadState } from '../actions/load-state.ts';
import { actionOf } from '../actions/requested-action.ts';
import { standingGrantsFor } from '../approvals/standing-grants.ts';
import type { Services } from '../core/services.ts';
import { lookUpUse } from '../passports/claim-store.ts';
import type { Caller } from '../platform/access/caller.ts';
import { type Pause, pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import { readUsage } from '../usage/read-usage.ts';
import { publishedPolicies, trialPolicies } from './trial-policies.ts';

interface SimulationReport {
  readonly results: readonly Simulation[];
  readonly counts: Record<Decision, number>;
}

/** Settings of a simulation. */
interface Rehearsal {
  readonly trace: ReturnType<typeof compileTrace>;
  /** Policies to use; undefined: the published policies, loaded as for every decision. */
  readonly policies?: PolicySet | undefined;
  /**
   * Mode to use; undefined: the mode that the call would have because of tenant, kill switches and
   * policies.
   */
  readonly mode?: Mode | undefined;
  /** Number of rules shown for each action. */
  readonly traceMax: number;
}

const tracedRulesMax = 2_000;

/**
 * Decides actions as preflight would, with the published policies or with candidates. Reports the
 * effects of the decisions but does not execute them.
 */
export async function simulate(
  services: Services,
  caller: Caller,
  request: SimulateRequest,
): Promise<SimulationReport> {
  const pause = pauser(services.clock);
  const rehearsal = await prepare(services, { tenantId: caller.tenantId, request, pause });
  const results: Simulation[] = [];
  const counts = { allow: 0, deny: 0, warn: 0, require_approval: 0, require_tool_reapproval: 0 };
  // Simulates the actions one after another, so that a batch leaves database connections for real
  // decisions.
  for (const [index, one] of request.actions.entries()) {
    const result = await rehearse(services, caller, { one, index, rehearsal, pause });
    counts[result.decision] += 1;
    results.push(result);
    await pause();
  }
  return { results, counts };
}

async function prepare(
  services: Services,
  {
    tenantId,
    request: { policies, beside, mode, actions },
    pause,
  }: { readonly tenantId: string; readonly request: SimulateRequest; readonly pause: Pause },
): Promise<Rehearsal> {
  const traceMax = Math.ceil(tracedRulesMax / actions.length);
  if (policies === undefined) {
    const trace = compileTrace(await publishedPolicies(services, tenantId, pause));
    return { trace, mode, traceMax };
  }
  const trial = { candidates: policies, beside };
  const published = await trialPolicies(services, tenantId, { trial, pause });
  const compiled = await runWithPauses(compileInSteps(published), pause);
  return { trace: compileTrace(published), policies: compiled, mode, traceMax };
}

async function rehearse(
  services: Services,
  caller: Caller,
  {
    one,
    index,
    rehearsal,
    pause,
  }: {
    readonly one: SimulatedAction;
    readonly index: number;
    readonly rehearsal: Rehearsal;
    readonly pause: Pause;
  },
): Promise<Simulation> {
  const action = await actionAt(caller, { ...one, mode: one.mode ?? rehearsal.mode }, index);
  const loaded = await loadState(services, {
    action,
    passport: one.passport,
    point: 'preflight',
    environment: services.config.environment,
  });
  const policies = rehearsal.policies ?? loaded.policies;
  const state: DecisionState = {
    ...loaded,
    passport: await withPassportUse(services, action, loaded.passport),
    policies,
    usage: await usageFor(services, action, { ...loaded, policies }),
  };
  const nowMs = services.clock.now();
  const verdict = await decideWithGrants(services, action, { state, nowMs });
  const context = contextWithUsage(action, state, nowMs);
  const trace = await runWithPauses(rehearsal.trace(context, rehearsal.traceMax), pause);
  return { ...answerOf(verdict), trace: trace.rules, trace_left_off: trace.leftOff };
}

/** Loads the tool's usage if needed: a candidate may have a budget that no published policy has. */
async function usageFor(
  services: Services,
  action: Action,
  { usage, policies }: DecisionState,
): Promise<DecisionState['usage']> {
  const isBudgeted = policies.usage.needsOf(action.tool, action.agentId) !== undefined;
  return isBudgeted ? (usage ?? readUsage(services, action)) : undefined;
}

/**
 * Before it reports that an approval is required, looks for a standing grant. Does not consume the
 * grant.
 */
async function decideWithGrants(
  services: Services,
  action: Action,
  { state, nowMs }: { readonly state: DecisionState; readonly nowMs: number },
): Promise<Verdict> {
  const verdict = measureWork(() => decide(action, state, nowMs));
  if (effectIn(verdict, 'open_approval') === undefined) return verdict;
  const asked = { action, actionDigest: digestOf(action, state.tool?.manifestHash) };
  for (const { proof } of await standingGrantsFor(services, services.db, asked)) {
    const granted = decide(action, { ...state, grant: proof }, nowMs);
    if (granted.decision !== 'require_approval') return granted;
  }
  return verdict;
}

async function actionAt(caller: Caller, request: SimulatedAction, index: number): Promise<Action> {
  try {
    return await actionOf(caller, request);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const { code, message } = error;
    throw new GatewayError(code, { message: `actions[${index}]: ${message}`, cause: error });
  }
}

/**
 * Adds to the passport's state whether it was used. A real decision claims the passport to find
 * this out; a simulation only looks up the claim.
 */
async function withPassportUse(
  services: Services,
  { tenantId }: Action,
  passport: PassportState | undefined,
): Promise<PassportState | undefined> {
  if (passport?.form !== 'signed') return passport;
  const use = await lookUpUse(services, tenantId, passport.claims.jti);
  return { ...passport, use };
}

function answerOf(verdict: Verdict): Omit<Simulation, 'trace' | 'trace_left_off'> {
  return {
    decision: verdict.decision,
    reason_code: verdict.reasonCode,
    summary: verdict.summary,
    matched_rules: verdict.matchedRules,
    risk_tier: verdict.riskTier,
    tool_manifest_hash: verdict.toolManifestHash,
    policy_hash: verdict.policyHash,
    mode: verdict.mode,
    enforced: verdict.enforced,
    effects: verdict.effects.map(({ kind }) => kind),
    explain: explainVerdict(verdict),
  };
}
