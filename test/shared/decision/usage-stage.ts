import { decide } from '../../../shared/decision/decide.ts';
import { effectIn } from '../../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../../shared/decision/state.ts';
import { compilePolicies } from '../../../shared/policy/engine/compile.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
} from '../../../shared/policy/language/definition.ts';
import { ToolUsage } from '../../../shared/usage/tool-usage.ts';
import { UsageBook } from '../../../shared/usage/usage-book.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import { publish } from '../../support/policy/policy-arbitraries.ts';
import { baseAction, baseState, nowMs } from '../fixtures.ts';

export const tool = baseAction.tool;
export const isTool: PolicyCondition = { path: 'tool.name', operator: '==', value: tool };

type Rule = Pick<PolicyDefinition['rules'][number], 'decision' | 'when'>;
export const rule = (decision: Rule['decision'], ...all: readonly PolicyCondition[]): Rule => ({
  decision,
  when: { all: [isTool, ...all] },
});
export const usage = (path: string, operator: PolicyCondition['operator'], value: number) => ({
  path: `usage.${path}`,
  operator,
  value,
});

export function policy(
  rules: readonly Rule[],
  more: Partial<PolicyDefinition> = {},
): PolicyDefinition {
  const named = rules.map((one, index) => ({
    name: `r${index}`,
    reason: `test.r${index}`,
    ...one,
  }));
  return { id: 'budget', version: 1, rules: named, ...more };
}

/** Creates a decider that counts the calls that it allows, as a sidecar or a control plane does. */
export function decider(...definitions: readonly PolicyDefinition[]) {
  const policies = compilePolicies(definitions.map((one, index) => publish(index + 1, one)));
  const book = new UsageBook();
  const ask = (args: Action['args'] = {}, atMs = nowMs, state: Partial<DecisionState> = {}) => {
    const action = { ...baseAction, args };
    const known = new ToolUsage([book.of(tool)]);
    const verdict = decide(action, { ...baseState, policies, usage: known, ...state }, atMs);
    const effect = effectIn(verdict, 'count_usage');
    if (effect) book.count(tool, effect.sums, { nowMs: atMs, monotonicMs: 0 });
    return verdict;
  };
  return { ask, policies, book };
}
