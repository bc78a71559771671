import type {
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
} from '../../../shared/policy/language/definition.ts';
import { lintPolicies } from '../../../shared/policy/lint/lint.ts';
import type { LintFinding } from '../../../shared/policy/lint/lint-finding.ts';

export type Terse = readonly [PolicyCondition['path'], PolicyCondition['operator'], unknown];

export function conditions(terse: readonly Terse[]): PolicyCondition[] {
  return terse.map(([path, operator, value]) => ({
    path,
    operator,
    value: value as PolicyCondition['value'],
  }));
}

export function rule(name: string, decision: PolicyRule['decision'], ...all: Terse[]): PolicyRule {
  return { name, decision, reason: `x.${name}`, when: { all: conditions(all) } };
}

export function policy(rules: readonly PolicyRule[], more: Partial<PolicyDefinition> = {}) {
  return { id: 'p', version: 1, rules, ...more } satisfies PolicyDefinition;
}

export function lint(...rules: PolicyRule[]): readonly LintFinding[] {
  return lintPolicies([policy(rules)]);
}

export const kinds = (findings: readonly LintFinding[]) => findings.map(({ kind }) => kind);
export const refund: Terse = ['tool.name', '==', 'pay.refund'];
export const upTo = (limit: number): Terse => ['args.amount', '<=', limit];
export const over = (limit: number): Terse => ['args.amount', '>', limit];
