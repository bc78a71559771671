import type { JsonObject } from '../base/json.ts';
import type { PolicyOutcome, PolicySet } from '../policy/engine/policy-set.ts';
import type { UsageNeeds } from '../policy/engine/usage-index.ts';
import type { PolicyContext } from '../policy/language/context.ts';
import { severity } from '../policy/language/severity.ts';
import { amountsIn, unsummablePaths } from '../usage/amounts.ts';
import { minuteMs, minuteOf } from '../usage/buckets.ts';
import { asDecimal, type ToolUsage } from '../usage/tool-usage.ts';
import type { Action } from '../vocabulary/action.ts';
import type { Effect } from '../vocabulary/verdict.ts';
import { buildContext } from './context.ts';
import type { DecisionState } from './state.ts';

/** The outcome of the policies, with past usage taken into account. */
export interface UsageJudgement {
  readonly outcome: PolicyOutcome;
  /** Set if a deciding rule needs usage that is unknown. */
  readonly isUnknown?: boolean;
  /**
   * Time at which the outcome becomes less restrictive if no calls are counted until then.
   * Undefined if less usage would not change the outcome.
   */
  readonly resetsAtMs?: number | undefined;
}

/** Evaluates the policies, including rules that refer to past usage. */
export function evaluateWithUsage(
  action: Action,
  state: DecisionState,
  nowMs: number,
): UsageJudgement {
  const { policies, usage } = state;
  const context = buildContext(action, state);
  const needs = needsOf(action, state);
  if (needs === undefined) return { outcome: policies.evaluate(context) };
  if (usage === undefined) {
    const outcome = policies.evaluate(context);
    // If a rule that does not read usage denies the call, the budget is irrelevant.
    const isSettled = outcome.decision === 'deny' && outcome.matchedRules.length > 0;
    return { outcome, isUnknown: !isSettled && policies.usage.decidesIn(context) };
  }
  const evaluateAt = (ms: number) =>
    policies.evaluate(withUsage(context, usage, { needs, args: action.args, nowMs: ms }));
  const outcome = evaluateAt(nowMs);
  if (outcome.decision === 'allow' || outcome.decision === 'warn') return { outcome };
  return {
    outcome,
    resetsAtMs: firstRelief(outcome, evaluateAt, { afterMs: nowMs, untilMs: usage.emptyFromMs }),
  };
}

/** The context of an action, including past usage. */
export function contextWithUsage(
  action: Action,
  state: DecisionState,
  nowMs: number,
): PolicyContext {
  const context = buildContext(action, state);
  const needs = needsOf(action, state);
  if (needs === undefined || state.usage === undefined) return context;
  return withUsage(context, state.usage, { needs, args: action.args, nowMs });
}

/**
 * The `count_usage` effect of a call that may proceed; undefined if no budget refers to the call.
 */
export function countEffect(action: Action, state: DecisionState): Effect | undefined {
  const needs = needsOf(action, state);
  return needs && { kind: 'count_usage', sums: amountsIn(action.args, needs.sums) };
}

/** The usage part of the context for a call without arguments, for read-only requests. */
export function usageSoFar(
  action: Pick<Action, 'tool' | 'agentId'>,
  { policies, usage }: Pick<DecisionState, 'policies' | 'usage'>,
  nowMs: number,
): JsonObject | undefined {
  const needs = needsOf(action, { policies });
  return needs && usage && usageContext(usage, { needs, args: {}, nowMs });
}

function needsOf(
  { tool, agentId }: Pick<Action, 'tool' | 'agentId'>,
  { policies }: { readonly policies: PolicySet },
): UsageNeeds | undefined {
  return policies.usage.isEmpty ? undefined : policies.usage.needsOf(tool, agentId);
}

interface Looked {
  readonly needs: UsageNeeds;
  readonly args: JsonObject;
  readonly nowMs: number;
}

function withUsage(context: PolicyContext, usage: ToolUsage, looked: Looked): PolicyContext {
  return { ...context, usage: usageContext(usage, looked) };
}

/**
 * Builds the usage part of the context. `calls_*` count previous calls only. Sums include the value
 * of this call, because otherwise a single call could exceed any budget. If the value is
 * unreadable, the sum is a text with an exponent. Such a text can match rules that refuse, but
 * never rules that allow.
 */
function usageContext(usage: ToolUsage, { needs, args, nowMs }: Looked): JsonObject {
  const own = amountsIn(args, needs.sums);
  const unreadable = unsummablePaths(args, needs.sums);
  const sums: Record<string, number | string> = {};
  for (const path of needs.sums) {
    const sum = asDecimal(usage.sumIn24h(path, nowMs) + (own[path] ?? 0));
    sums[path] = unreadable.has(path) ? sum.toExponential() : sum;
  }
  return {
    calls_1h: usage.callsIn1h(nowMs),
    calls_24h: usage.callsIn24h(nowMs),
    sum_24h: sums,
  };
}

/**
 * The first full minute at which the outcome is less restrictive, found by binary search. Without
 * new calls, usage only falls, so a refused call is eventually allowed. If a rule refuses low
 * usage, the search may return a later minute than the first one.
 */
function firstRelief(
  { decision }: PolicyOutcome,
  evaluateAt: (ms: number) => PolicyOutcome,
  { afterMs, untilMs }: { readonly afterMs: number; readonly untilMs: number },
): number | undefined {
  const isRelief = (minute: number) =>
    severity(evaluateAt(minute * minuteMs).decision) < severity(decision);
  let first = minuteOf(afterMs) + 1;
  let last = untilMs / minuteMs;
  if (last < first || !isRelief(last)) return undefined;
  while (first < last) {
    const middle = Math.floor((first + last) / 2);
    if (isRelief(middle)) last = middle;
    else first = middle + 1;
  }
  return last * minuteMs;
}
